// Tokenises every rule file below a folder: each character that is no blank must have a scope of its own.
const fs = require("fs");
const path = require("path");
const { loadWASM, OnigScanner, OnigString } = require("vscode-oniguruma");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");

const grammarFile = path.join(__dirname, "..", "syntaxes", "datalog-gate.tmLanguage.json");

function ruleFiles(folder) {
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name);
    return entry.isDirectory() ? ruleFiles(file) : file.endsWith(".dl") ? [file] : [];
  });
}

async function main() {
  await loadWASM(fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")).buffer);
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new OnigScanner(patterns),
      createOnigString: (text) => new OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(grammarFile, "utf8"), grammarFile),
  });
  const grammar = await registry.loadGrammar("source.datalog-gate");
  const files = ruleFiles(process.argv[2]);
  let wrong = 0;
  for (const file of files) {
    let stack = INITIAL;
    fs.readFileSync(file, "utf8").split("\n").forEach((line, at) => {
      const result = grammar.tokenizeLine(line, stack);
      stack = result.ruleStack;
      for (const token of result.tokens) {
        const text = line.slice(token.startIndex, token.endIndex);
        if (text.trim() && token.scopes.length < 2) {
          wrong += 1;
          console.log(`${file}:${at + 1}:${token.startIndex + 1}: no scope for ${text}`);
        }
      }
    });
    if (stack !== INITIAL && stack.depth > 1) {
      wrong += 1;
      console.log(`${file}: a string or comment does not end`);
    }
  }
  console.log(`${files.length} files, ${wrong} wrong`);
  process.exit(wrong || !files.length ? 1 : 0);
}

main();

// Starts the language server for rules and for files that may be templates.
const path = require("path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;
const commands = {
  "datalogGate.restart": () => client.restart(),
  "datalogGate.runCases": () => {
    const editor = vscode.window.activeTextEditor;
    const file = editor && path.join(path.dirname(editor.document.fileName), "test.yaml");
    return file && vscode.commands.executeCommand("datalog-gate.runCases", file, "", "");
  },
};

exports.activate = (context) => {
  const [command, ...args] = vscode.workspace.getConfiguration("datalogGate").get("command");
  const documentSelector = [
    ...["datalog-gate", "yaml", "json"].map((language) => ({ language, scheme: "file" })),
    { pattern: "**/*.template", scheme: "file" },
  ];
  const synchronize = { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{dl,yaml,yml,template,env,json,jsonl,toml}") };
  client = new LanguageClient("datalogGate", "datalog gate", { command, args }, { documentSelector, synchronize });
  for (const [name, run] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(name, run));
  }
  return client.start();
};

exports.deactivate = () => client && client.stop();

// Starts the language server for rules and for files that may be templates.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const [command, ...args] = vscode.workspace.getConfiguration("datalogGate").get("command");
  const documentSelector = [
    ...["datalog-gate", "yaml", "json"].map((language) => ({ language, scheme: "file" })),
    { pattern: "**/*.template", scheme: "file" },
  ];
  const synchronize = { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{dl,yaml,yml,template,env,json,jsonl,toml}") };
  client = new LanguageClient("datalogGate", "datalog gate", { command, args }, { documentSelector, synchronize });
  return client.start();
};

exports.deactivate = () => client && client.stop();

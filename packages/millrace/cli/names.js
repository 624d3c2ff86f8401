// The commands by name. Plain JavaScript, as launch.js, whose help has them.
import { readFileSync } from "node:fs";

/** The commands in the folder of a Worker. */
export const COMMANDS = {
  init: "add the engine to a Worker, or make a new Worker",
  dev: "run the Worker on this machine: database, console, checks at each save",
  migrate: "apply the migrations, here or with --remote",
  doctor: "check bindings, migrations, secrets, queues and limits, here or with --remote",
  check: "compare the code with the open instances of a deployment",
  deploy: "provision, migrate and deploy the Worker",
  token: "make, list and revoke tokens; link signs a browser in to the console",
  cells: "move a tenant to another cell",
  cost: "show the cost of each workflow",
  completion: "print the completion of the command for bash, zsh or fish",
};

/** The operations of the engine. A test of the OpenAPI document writes the file. */
export const OPERATIONS = JSON.parse(readFileSync(new URL("operate/operations.json", import.meta.url), "utf8"));

/** The nouns, each with its verbs; those without verbs with their purpose. */
export function nounLines() {
  /** @type {Record<string, string>} */
  const nouns = {};
  for (const { command, does } of OPERATIONS) {
    const [noun, verb = does.toLowerCase()] = command.split(" ");
    nouns[noun] = noun in nouns ? `${nouns[noun]}, ${verb}` : verb;
  }
  nouns.instances += ", tail";
  return nouns;
}

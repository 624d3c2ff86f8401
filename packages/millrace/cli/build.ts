import { besideOptions, type Call, Misuse, runCommand, type Usage } from "./command.ts";
import { builtConsole } from "./local/console.ts";
import { wantsHelp } from "./options.ts";
import { say } from "./terminal.ts";

const USAGE: Usage = {
  text: "Usage: npm run prepare -- [--help]. Builds the files of packages/millrace/console that the Worker serves, if the sources have changed.",
  values: [],
};

/**
 * Builds the console, if its sources have changed. npm runs this command after an install, and wrangler runs this command before a
 * deployment.
 */
async function build({ args }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE.text);
    return 0;
  }
  const [beside] = besideOptions(args, USAGE);
  if (beside !== undefined) throw new Misuse(`Unexpected argument: "${beside}". ${USAGE.text}`);
  await builtConsole();
  return 0;
}

await runCommand(build);

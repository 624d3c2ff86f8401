import { runCommand } from "./command.ts";
import { operate } from "./operate/operate.ts";

await runCommand(operate);

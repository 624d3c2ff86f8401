import { MillraceError } from "../contract/errors.ts";
import type { Catalog } from "../topology/catalog.ts";
import { messagesIn } from "../topology/described.ts";

/**
 * The command that the console suggests to a new user. The best choice is a command that fails once on a development machine, because a
 * retry shows more of the engine than a success.
 */
export interface FirstCommand {
  readonly type: string;
  readonly payload: unknown;
  /** One sentence about the result of the command. */
  readonly why: string;
}

/** Validates the first command. Errors: `config_invalid` for a command that is not open to external callers. */
export function assertOpen(catalog: Catalog, { type }: FirstCommand): void {
  const open = messagesIn(catalog).filter(({ definition: { kind, door } }) => kind === "command" && door?.scope != null);
  if (open.some(({ definition }) => definition.type === type)) return;
  const names = open.map(({ definition }) => definition.type).join(", ");
  throw new MillraceError(
    "config_invalid",
    `\`firstCommand\` names "${type}", which is not a command open to the outside. Open commands: ${names}.`,
  );
}

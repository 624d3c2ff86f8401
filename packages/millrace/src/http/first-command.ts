import { MillraceError } from "../contract/errors.ts";
import type { Catalog } from "../topology/catalog.ts";
import { messagesIn } from "../topology/described.ts";

/** A command that a new user is shown first: one that fails once on a development machine shows most. */
export interface FirstCommand {
  readonly type: string;
  readonly payload: unknown;
  /** A sentence about what will come of it. */
  readonly why: string;
}

/** Refuses a first command that is not open to the outside. Errors: `config_invalid`. */
export function assertOpen(catalog: Catalog, { type }: FirstCommand): void {
  const open = messagesIn(catalog).filter(({ definition: { kind, door } }) => kind === "command" && door?.scope != null);
  if (open.some(({ definition }) => definition.type === type)) return;
  const names = open.map(({ definition }) => definition.type).join(", ");
  throw new MillraceError(
    "config_invalid",
    `\`firstCommand\` names "${type}", which is not a command open to the outside. Open commands: ${names}.`,
  );
}

import { MillraceError } from "../contract/errors.ts";
import { type Access, type MessageDefinition, OPEN } from "../contract/message.ts";
import type { Operator } from "../store/actions.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { Scope } from "./tokens.ts";

/** A caller of the API: a person or a program with a token. */
export interface Asker extends Operator {
  /** The token's scopes. */
  readonly scopes: readonly Scope[];
}

/**
 * Refuses a command that the token may not send. Errors: `forbidden` with the command's own route in its text, or
 * `unknown_message_type`.
 */
export function assertMayAsk(catalog: Catalog, by: Pick<Asker, "scopes">, type: string): void {
  assertMaySay(by, catalog.performer(type).on);
}

/** Refuses a message of any kind (command, event) that the token may not send. Errors: `forbidden`. */
export function assertMaySay({ scopes }: Pick<Asker, "scopes">, { type, access }: Pick<MessageDefinition, "type" | "access">): void {
  if (access === undefined || scopes.some((scope) => scope === access.scope)) return;
  if (access.scope === null) throw new MillraceError("forbidden", `No token can send ${type} directly: use ${access.route}.`);
  const at = access.route === OPEN.route ? "" : `, with ${access.route}`;
  throw new MillraceError(
    "forbidden",
    `${type} needs the scope \`${access.scope}\`, which the token lacks: use a token with that scope${at}.`,
  );
}

/**
 * Refuses an event that the token may not publish. No token may publish an event without an `access`. Errors: `forbidden` with
 * the next step in its text, or `unknown_message_type`.
 */
export function assertMayState(catalog: Catalog, { scopes }: Pick<Asker, "scopes">, type: string): void {
  const { access } = catalog.subscribers(type).event;
  if (scopes.some((scope) => scope === access?.scope)) return;
  throw new MillraceError("forbidden", whyClosed(type, access));
}

function whyClosed(type: string, access: Access | undefined): string {
  if (access === undefined) {
    return `${type} is closed: only this deployment's own steps publish it. To open it, add \`access: { scope: "enqueue" }\` to its defineEvent and deploy.`;
  }
  if (access.scope === null) return `No token can publish ${type} directly: use ${access.route}.`;
  return `${type} needs the scope \`${access.scope}\`, which the token lacks. Use a token with that scope.`;
}

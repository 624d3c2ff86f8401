import { MillraceError } from "../contract/errors.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { Token } from "./tokens.ts";

/** Refuses a command that a token may not ask for. Errors: `forbidden`, which names the route made for the command; `unknown_message_type`. */
export function assertMayAsk(catalog: Catalog, { scopes }: Pick<Token, "scopes">, type: string): void {
  const { door } = catalog.performer(type).on;
  if (door === undefined || scopes.some((scope) => scope === door.scope)) return;
  const why =
    door.scope === null ? `No token may send ${type} by itself` : `${type} needs the scope \`${door.scope}\`, which the token lacks`;
  throw new MillraceError("forbidden", `${why}: use ${door.route}.`);
}

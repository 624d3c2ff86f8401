import { MillraceError, messageOf } from "../../contract/errors.ts";
import type { Catalog } from "../../topology/catalog.ts";

/**
 * Refuses an event that its routes could not follow: a command that a route derives from its payload alone (`send`) would have a payload
 * that is none. It would only come back as a dead letter. What code looks up or does is not known before. Errors: `invalid_payload`, with the
 * issues of the command's payload.
 */
export function assertRoutesTake(catalog: Catalog, type: string, payload: unknown): void {
  for (const target of catalog.subscribers(type).targets) {
    if (target.do !== "send" || target.derived === undefined) continue;
    try {
      target.command.from(target.derived(payload));
    } catch (error) {
      const issues = error instanceof MillraceError ? error.detail.issues : undefined;
      const said = `The route of ${type} cannot send ${target.command.type}: ${messageOf(error)} Fix the route, or correct the message.`;
      throw new MillraceError("invalid_payload", said, issues && { issues });
    }
  }
}

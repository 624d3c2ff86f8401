import { MillraceError, messageOf } from "../../contract/errors.ts";
import type { Catalog } from "../../topology/catalog.ts";

/**
 * Refuses an event if its routes would derive an invalid command from its payload (`send`), because the event would only become a dead
 * letter again. Commands that depend on a route's code or lookup are not checked. Errors: `invalid_payload`, with the issues of the
 * command's payload.
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

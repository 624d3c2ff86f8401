import { MillraceError } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import { assertWellFormed } from "../store/d1/bindable.ts";
import type { Commit, Writes } from "./step.ts";

/**
 * Validates the writes that `record`, `undo` or a commit returned. Errors: `config_invalid` for anything but lists of statements and
 * messages, such as a promise, a single statement or a misspelled name. Text that is not well-formed Unicode causes the same error.
 */
export function asWrites<Output>(given: Commit<Output>, label: string): Writes & { output?: Output } {
  const { statements = [], emit = [], output, ...others } = isPlain(given) ? given : refuse(label, given);
  const [misspelled] = Object.keys(others);
  if (misspelled !== undefined) throw refused(label, `"${misspelled}"`);
  if (!Array.isArray(statements)) return refuse(label, statements);
  for (const statement of statements) assertWellFormed(statement);
  if (!Array.isArray(emit)) return refuse(label, emit);
  const odd = emit.find((draft) => typeof draft?.type !== "string" || typeof draft.queue?.name !== "string");
  if (odd !== undefined || emit.includes(undefined as never))
    throw refused(label, `a message ${shown(odd)}, which is not an event (create one with Event.from(payload))`);
  return output === undefined ? { statements, emit } : { statements, emit, output };
}

function isPlain(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !("then" in value) && !("text" in value);
}

function refuse(label: string, given: unknown): never {
  throw refused(label, given instanceof Promise ? "a promise" : shown(given));
}

function refused(label: string, what: string): MillraceError {
  return new MillraceError(
    "config_invalid",
    `The writes of "${label}" must be { statements: [sql\`…\`], emit: [Event.from(…)] }, not ${what}.`,
  );
}

function shown(value: unknown): string {
  try {
    return beginning(JSON.stringify(value) ?? String(value), 60);
  } catch {
    return `a ${typeof value}`;
  }
}

import { crashPoint, isSimulatedDeath } from "../../contract/crash-points.ts";
import { codeOf, messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { jsonOf } from "../../contract/plain.ts";
import { beginning } from "../../contract/text.ts";
import type { Intake } from "../../intake/consumer.ts";
import { type Dispatch, dispatchTo } from "../../intake/dispatch.ts";
import { textField } from "../../intake/letters/letter.ts";
import { count } from "../../observe/metrics/count.ts";
import { relay } from "../../recorder/relay.ts";
import { query } from "../../store/d1/retry.ts";
import { type DeadLetter, noteRepair, repairLetter, selectUnrepaired, type TriedRepair } from "../../store/dead-letters.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { Repair } from "../../topology/hooks.ts";
import { readAgain } from "./read-again.ts";
import { putBack } from "./settle.ts";

const ENGINE = "millrace";
const MAX_ERROR_CHARACTERS = 500;

/**
 * Tries a queue's repairs on newly captured dead letters. At most one repair is applied to each dead letter. A message that an operator or
 * a repair has replayed is not repaired, so no repair gets its own result as input. Errors: database errors, after which the deliveries are
 * retried. The retry does not repeat completed repairs.
 */
async function repairLetters(intake: Intake, letters: readonly DeadLetter[]): Promise<void> {
  const { repairs } = intake.consumer;
  if (repairs.length === 0 || letters.length === 0) return;
  const untried = new Set((await query(intake.env.DB, selectUnrepaired(letters.map(({ id }) => id)))).map(({ id }) => id));
  for (const letter of letters) {
    const message: unknown = JSON.parse(letter.body);
    if (!untried.delete(letter.id) || letter.tenantId === null || textField(message, "replay") !== null) continue;
    if (!isNode(message) || Array.isArray(message)) continue;
    const found = fitting(repairs, letter, message);
    if (found !== undefined) await tryRepair(intake, { ...letter, tenantId: letter.tenantId }, message, found);
  }
}

type Found = { readonly repair: Repair; readonly threw?: unknown };

function fitting(repairs: readonly Repair[], letter: DeadLetter, message: Record<string, unknown>): Found | undefined {
  const { reason, error, messageType, attempts } = letter;
  for (const repair of repairs) {
    try {
      if (repair.when({ reason, error, messageType, attempts, message: structuredClone(message) })) return { repair };
    } catch (threw) {
      return { repair, threw };
    }
  }
  return undefined;
}

async function tryRepair(
  { env, catalog, consumer }: Intake,
  letter: DeadLetter & { tenantId: string },
  message: Record<string, unknown>,
  { repair, ...found }: Found,
): Promise<void> {
  const { id, tenantId, queue, reason } = letter;
  const { name } = repair;
  const report = (outcome: TriedRepair["outcome"]) => {
    count(env, "dead_letter_repairs_total", { queue: consumer.queue.name, repair: name, outcome });
    logLine(outcome === "sent" ? "info" : "warn", { log: "repair", queue, dead_letter: id, repair: name, outcome });
  };
  let changed: readonly string[] = [];
  const leave = async (outcome: "failed" | "refused", error: unknown) => {
    const tried = { name, outcome, at: Date.now(), changed, error: beginning(messageOf(error), MAX_ERROR_CHARACTERS) };
    if ((await query(env.DB, noteRepair(id, tried))).length > 0) report(outcome);
  };

  let repaired: unknown;
  try {
    if ("threw" in found) throw found.threw;
    repaired = plainJson(repair.fix(structuredClone(message)));
    changed = changedPaths(message, repaired);
  } catch (error) {
    return leave("failed", error);
  }
  let read: Awaited<ReturnType<typeof readAgain>>;
  try {
    read = await readAgain(env, catalog, { tenantId, scopes: null }, { queue, reason, body: message }, repaired);
  } catch (error) {
    if (isSimulatedDeath(error) || codeOf(error) === undefined || codeOf(error) === "unavailable") throw error;
    return leave("refused", error);
  }
  // Sent like a replay: one batch writes the dead letter, the audit row and the message. After a crash, the keeper sends the message.
  const [detail, instanceId] = [{ repair: name, changed }, read.command?.id ?? null];
  const action = { id: crypto.randomUUID(), verb: "repair", target: id, instanceId, reason: `Repair ${name}`, detail };
  const change = repairLetter(id, { name, outcome: "sent", at: Date.now(), changed, error: null });
  const { isApplied, status, outgoing } = await putBack(env, { tenantId, actor: ENGINE }, action, change, read);
  if (!isApplied) return;
  report("sent");
  await crashPoint("Q12 repaired, not sent");
  if (status === "accepted") await relay(env, [outgoing]);
}

function plainJson(value: unknown): unknown {
  if (value === undefined) return null;
  const { text, why } = jsonOf(value);
  if (text === undefined) throw new Error(`The repaired message is not valid JSON: ${why}.`);
  return JSON.parse(text);
}

const MAX_PATHS = 20;

/** The dotted paths at which two JSON values differ, in the order of the fields of `before`. The result has at most 20 paths. */
function changedPaths(before: unknown, after: unknown, path = ""): string[] {
  if (before === after) return [];
  if (!isNode(before) || !isNode(after) || Array.isArray(before) !== Array.isArray(after)) return [path];
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return fields.flatMap((field) => changedPaths(before[field], after[field], path === "" ? field : `${path}.${field}`)).slice(0, MAX_PATHS);
}

function isNode(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** The `queue` handler of a Worker, which also repairs new dead letters. A batch of an unknown queue is logged and retried. */
export function dispatch(catalog: Catalog): Dispatch {
  return dispatchTo(catalog, repairLetters);
}

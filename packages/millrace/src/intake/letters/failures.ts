import type { EngineEnv } from "../../contract/bindings.ts";
import { stepOf } from "../../contract/cause.ts";
import { codeOf, detailOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { rowChunks, type Statement } from "../../contract/sql.ts";
import { beginning } from "../../contract/text.ts";
import { query } from "../../store/d1/retry.ts";
import { type FailedBefore, type FailedDelivery, noteFailures, selectFailures } from "../../store/failed-deliveries.ts";
import { letterId, nameIn } from "./letter.ts";

/** Maximum length of a stored error, in characters. */
const MAX_ERROR_CHARACTERS = 1000;

/** A delivery that failed and is retried. */
interface Failed {
  readonly message: Pick<Message, "body">;
  readonly error: unknown;
}

/**
 * Records the errors of failed deliveries. If the process dies during the last delivery, the dead letter shows the error of the preceding
 * delivery.
 */
export function noted(queue: string, failed: readonly Failed[]): Statement[] {
  const rows = failed.map(({ message: { body }, error }): FailedDelivery => {
    const { step = null, upstreamStatus = null } = detailOf(error);
    const said = { code: codeOf(error) ?? null, error: beginning(messageOf(error), MAX_ERROR_CHARACTERS) };
    return {
      tenantId: nameIn(body, "tenant_id") ?? "",
      letter: letterId(queue, body),
      ...said,
      step: step && stepOf(step),
      upstreamStatus,
    };
  });
  return rowChunks(rows).map(noteFailures);
}

/** A message that gets no further attempt. */
interface GivenUp {
  readonly message: Pick<Message, "body">;
  readonly letter: string;
  readonly attempts: number;
}

/**
 * The recorded errors of earlier deliveries, by id of the dead letter. A message that failed at its first attempt has no recorded error.
 */
export async function failuresOf({ DB }: EngineEnv, givenUp: readonly GivenUp[]): Promise<ReadonlyMap<string, FailedBefore>> {
  const tried = givenUp.filter(({ attempts }) => attempts > 1);
  if (tried.length === 0) return new Map();
  const messages = tried.map(({ message: { body }, letter }) => ({ tenantId: nameIn(body, "tenant_id") ?? "", letter }));
  const rows = await query<FailedBefore>(DB, selectFailures(messages));
  return new Map(rows.map((row) => [row.letter, row]));
}

/** Converts a recorded failure to an error. */
export function saidBefore({ code, error, step, upstreamStatus }: FailedBefore): Error {
  if (code === null) return new Error(error);
  return new MillraceError(code, error, { ...(step !== null && { step }), ...(upstreamStatus !== null && { upstreamStatus }) });
}

import { noteDelivery } from "../../observe/deliveries.ts";
import type { Delivered } from "../../observe/delivery.ts";
import type { DeadLetter } from "../../store/dead-letters.ts";
import { hideIn } from "../../topology/marks.ts";
import type { Intake } from "../consumer.ts";

/** Logs that a message became a dead letter, without the redacted values. */
export function noteCaptured({ env, catalog, takenAt }: Intake, letter: DeadLetter, message: Delivered, attempt: number): void {
  const { id: deadLetter, queue, reason: code } = letter;
  const hide = hideIn(catalog, queue, message.body);
  const error = hide(letter.error);
  const upstreamStatus = letter.upstreamStatus ?? undefined;
  noteDelivery(env, { queue, message, attempt, takenAt, outcome: "captured", deadLetter, code, error, upstreamStatus, hide });
}

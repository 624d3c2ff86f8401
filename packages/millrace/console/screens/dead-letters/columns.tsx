import type { Item } from "../../data/api.ts";
import type { LiveEvent } from "../../data/live.ts";
import { may } from "../../data/session.ts";
import { hrefOf } from "../../frame/router.tsx";
import { LinkTo } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import type { Column } from "../../parts/table.tsx";
import { Ago, shortId } from "../../parts/text.tsx";

export type Cause = Item<"/v1/dead-letters/causes">;
export type Letter = Item<"/v1/dead-letters">;

const MOVES = new Set(["replay", "skip", "escalate", "repair"]);
export function isAboutLetters({ kind, data }: LiveEvent): boolean {
  return kind === "dead_letter" || kind === "skipped" || (kind === "action" && MOVES.has(String(data.verb)));
}

export const CAUSE_COLUMNS: readonly Column<Cause>[] = [
  { head: "Open", width: "64px", narrow: "56px", cell: ({ count }) => <strong>{count}</strong> },
  {
    head: "Error",
    width: "2.6fr",
    cell: ({ id, message, step }) => <LinkTo to={hrefOf("dead-letters", { cause: id })} of={[step, message].filter(Boolean).join(": ")} />,
  },
  { head: "Type", width: "1.2fr", isMinor: true, cell: ({ message_type: type }) => <bdi>{type ?? "none"}</bdi> },
  { head: "Reason", width: "1fr", isMinor: true, cell: ({ reason }) => reason.replaceAll("_", " ") },
  { head: "Queue", width: "1.2fr", isMinor: true, cell: ({ queue }) => queue },
  { head: "First", width: "96px", isNumber: true, isMinor: true, cell: ({ first_at: at }) => <Ago at={at} /> },
  { head: "Last", width: "96px", narrow: "88px", isNumber: true, cell: ({ last_at: at }) => <Ago at={at} /> },
];

/** The title of a dead letter: the idempotency key of its message. Without a key, the id of the dead letter. */
export function nameOf({ id, idempotency_key: key }: Pick<Letter, "id" | "idempotency_key">): string {
  return key ?? shortId(id);
}

export const LETTER_COLUMNS: readonly Column<Letter>[] = [
  {
    head: "State",
    width: "104px",
    narrow: "80px",
    cell: ({ state, escalation }) => (escalation && state === "open" ? <Status word="escalated" tone="violet" /> : <Status word={state} />),
  },
  { head: "Key", width: "1.2fr", cell: (one) => <LinkTo to={hrefOf("dead-letters", one.id)} of={nameOf(one)} /> },
  {
    head: "Last error",
    width: "2.4fr",
    narrow: "1.2fr",
    cell: ({ step, error }) => {
      const said = [step, error].filter(Boolean).join(": ");
      return <bdi title={said}>{said}</bdi>;
    },
  },
  { head: "Type", width: "1fr", isMinor: true, cell: ({ message_type: type }) => <bdi>{type ?? "none"}</bdi> },
  { head: "Attempts", width: "72px", isNumber: true, isMinor: true, cell: ({ attempts }) => attempts },
  { head: "First", width: "96px", isNumber: true, isMinor: true, cell: (one) => <Ago at={one.first_attempt_at ?? one.first_at} /> },
  { head: "Last", width: "96px", narrow: "88px", isNumber: true, cell: (one) => <Ago at={one.last_attempt_at ?? one.captured_at} /> },
];

/** A note for a token without the scope `unattributed`: such a token cannot see dead letters without a tenant. */
export function OfNoTenant() {
  if (may("unattributed")) return null;
  return (
    <>
      Dead letters without a tenant are shown only to a token with the scope <code>unattributed</code>.
    </>
  );
}

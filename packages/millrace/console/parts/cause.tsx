import type { Item } from "../data/api.ts";
import { useCause } from "../data/use-data.ts";
import { Ago, GAPS, hasGaps, inWords } from "./text.tsx";

type Cause = Item<"/v1/instances/causes"> | Item<"/v1/dead-letters/causes">;

export function messageOf({ step, message, ...of }: Cause): string {
  const where = step ?? ("code" in of ? of.code : "");
  return [where, message].filter(Boolean).join(": ");
}

function factsOf({ count, message_type: type, ...of }: Cause): string[] {
  return "code" in of
    ? [`${count.toLocaleString()} errored`, of.workflow, inWords(of.code)]
    : [`${count} open`, inWords(of.reason), type ?? "no type", of.queue];
}

/** The common cause of the items of a list. */
export function CauseOf({ at, id = "" }: { at: "/v1/instances/causes" | "/v1/dead-letters/causes"; id: string | undefined }) {
  const cause: Cause | undefined = useCause(at, id);
  if (!cause) return null;
  const message = messageOf(cause);
  return (
    <section aria-label="The cause">
      <p class="cause" data-tone="red">
        <bdi>{message}</bdi>
      </p>
      <p class="quiet">
        {factsOf(cause).map((one) => [<bdi key={one}>{one}</bdi>, " · "])}
        first <Ago at={cause.first_at} />, last <Ago at={cause.last_at} />. {hasGaps(message) && GAPS}
      </p>
    </section>
  );
}

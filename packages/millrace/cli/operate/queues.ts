import type { QueueHealth } from "./answers.ts";
import { queryOf, sayPage } from "./list.ts";
import { NO_VERB, type Noun, verb } from "./verb.ts";

const NUMBERS = ["waiting", "oldest s", "lag s", "in/min", "out/min", "sent back", "dead letters", "p50 s", "p99 s"];
const COLUMNS = [{ title: "queue" }, ...NUMBERS.map((title) => ({ title, isNumber: true }))];
const NOT_KNOWN = "–";

export const queues: Noun = {
  does: "Shows the health of all queues",
  verbs: {
    [NO_VERB]: verb({
      does: "Shows the health of all queues: backlog, lag, rates, retries, dead letters, batch time. Needs the scope observe",
      options: { minutes: { value: "COUNT", says: "minutes covered by rates and times; default 5" } },
      async run(asked) {
        const health = await asked.api.get<QueueHealth>(`/v1/queues${queryOf({ minutes: asked.text("minutes") })}`);
        sayPage(asked, health, { columns: COLUMNS, row, none: "No queues." });
        return 0;
      },
    }),
  },
};

/** An unknown value is a dash, as in the console. */
function row(one: QueueHealth["items"][number]): string[] {
  const number = (value: number | null) => (value === null ? NOT_KNOWN : String(Math.round(value * 100) / 100));
  return [
    one.queue,
    ...[one.depth, one.oldest_seconds, one.lag_seconds, one.in_per_minute, one.out_per_minute].map(number),
    one.retry_share === null ? NOT_KNOWN : `${number(one.retry_share * 100)} %`,
    ...[one.dead_letters_open, one.processing_p50_seconds, one.processing_p99_seconds].map(number),
  ];
}

import { get, type Item as ItemOf } from "../../data/api.ts";
import { usePages, useRegularly } from "../../data/use-data.ts";
import { Empty, Item, Items } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, Bar, duration, Name } from "../../parts/text.tsx";

type Limit = ItemOf<"/v1/limits">;
type Rule = Limit["rules"][number];

function wordFor({ paused_until, share, waiting, rules }: Limit): string {
  if (paused_until) return "paused";
  if (share < 1) return "narrowed";
  return waiting > 0 || rules.some(({ used, limit }) => used >= limit) ? "full" : "open";
}

function allowed({ limit, refill, period_seconds }: Rule): string {
  const period = duration(period_seconds * 1000);
  return refill === null ? `${limit} in any ${period}` : `${limit} at once, ${refill} more every ${period}`;
}

export function Limits() {
  const pages = usePages((cursor) => get("/v1/limits", { query: { cursor } }), [], { nameOf: ({ name }) => name, isAbout: () => false });
  useRegularly(pages.again);
  return (
    <>
      <p class="quiet">
        A limit is the rate of calls to an upstream, shared by all callers. When the upstream refuses a call, calls stop for the time it
        names. They resume at half the rate, which recovers within 30 seconds.
      </p>
      <Items
        pages={pages}
        noun={["limit", "limits"]}
        empty={
          <Empty command="await limitOf(env, name, [{ limit: 100, periodMs: 10_000 }], { tenantId }).take()">
            This tenant has used no limit since yesterday. Code takes from a limit before each call to an upstream:
          </Empty>
        }
      >
        {(limit) => <One key={limit.name} limit={limit} />}
      </Items>
    </>
  );
}

function One({ limit }: { limit: Limit }) {
  const { name, rules, waiting, paused_until: pausedUntil, share, used_at: usedAt } = limit;
  return (
    <Item mark={<Status word={wordFor(limit)} />} title={<Name of={name} />}>
      {rules.map((rule) => (
        <p key={allowed(rule)} class="settings-rule">
          <Bar share={rule.used / rule.limit}>
            {Math.round(rule.used)} of {rule.limit} used
          </Bar>
          <span class="quiet">{allowed(rule)}</span>
        </p>
      ))}
      <p class="quiet">
        {waiting === 0 ? "none waiting" : `${waiting} waiting`}
        {pausedUntil && <Ago label=" · calls stopped, next" at={pausedUntil} />}
        {share < 1 && ` · at ${Math.round(share * 100)} % of the rate`} <Ago label="· last used" at={usedAt} />
      </p>
    </Item>
  );
}

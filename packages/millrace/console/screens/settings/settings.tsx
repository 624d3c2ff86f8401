import type { ComponentType } from "preact";
import type { Item as ItemOf } from "../../data/api.ts";
import { Item, List } from "../../parts/list.tsx";
import { Button, Lines, Pages } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, Bar, Name, Quiet, seconds, Text } from "../../parts/text.tsx";
import type { ScreenProps } from "../screen.ts";
import { Schedules } from "./schedules.tsx";
import "./settings.css";
import { Tokens } from "./tokens.tsx";

const PAGES: Readonly<Record<string, readonly [title: string, page: ComponentType]>> = {
  schedules: ["Schedules", Schedules],
  locks: ["Locks", Locks],
  limits: ["Limits", Limits],
  tokens: ["Tokens", Tokens],
};

export function Settings({ param }: ScreenProps) {
  return <Pages screen="settings" title="Settings" pages={PAGES} at={param} />;
}

function Locks() {
  return (
    <List
      at="/v1/locks"
      nameOf={({ name }) => name}
      noun="lock"
      head={({ pages }) => (
        <div class="settings-bar">
          <p class="quiet">Locks held for ten seconds or more. This list is not updated automatically.</p>
          <Button press={pages.again}>Refresh</Button>
        </div>
      )}
      command="await lockOf(env, { name }).with(async () => …)"
      empty="No lock has been held for ten seconds. Code takes a lock for work that only one holder may do at a time:"
      row={({ name, holder, since, until, waiting, token }) => (
        <Item
          mark={<Ago at={since} />}
          title={[<Name key="name" of={name} />, " held by ", <Text key="by" of={holder || "an unnamed holder"} />]}
          notes={[
            <>
              {waiting || "none"} waiting · <Ago label="expires" at={until} /> unless renewed · fencing token {token}
            </>,
          ]}
          acts={[{ verb: "Break", about: name, at: "/v1/locks/:name/break", param: { name } }]}
        />
      )}
    />
  );
}

type Limit = ItemOf<"/v1/limits">;
type Rule = Limit["rules"][number];

function wordFor({ paused_until, share, waiting, rules }: Limit): string {
  if (paused_until) return "paused";
  if (share < 1) return "narrowed";
  return waiting > 0 || rules.some(({ used, limit }) => used >= limit) ? "full" : "open";
}

function allowed({ limit, refill, period_seconds }: Rule): string {
  const period = seconds(period_seconds);
  return refill === null ? `${limit} in any ${period}` : `${limit} at once, ${refill} more every ${period}`;
}

function Limits() {
  return (
    <>
      <p class="quiet">
        A limit is the rate of calls to an upstream, shared by all callers. When the upstream refuses a call, calls stop for the time it
        names. They resume at half the rate, which recovers within 30 seconds.
      </p>
      <List
        at="/v1/limits"
        nameOf={({ name }) => name}
        about={["action", "tick"]}
        noun="limit"
        command="await limitOf(env, name, [{ limit: 100, periodMs: 10_000 }], { tenantId }).take()"
        empty="This tenant has used no limit since yesterday. Code takes from a limit before each call to an upstream:"
        row={(limit) => (
          <Item mark={<Status word={wordFor(limit)} />} title={<Name of={limit.name} />}>
            <Lines
              columns="144px 1fr"
              of={limit.rules.map((rule) => [
                <Bar key="used" share={rule.used / rule.limit}>
                  {Math.round(rule.used)} of {rule.limit} used
                </Bar>,
                <Quiet key="most" of={allowed(rule)} />,
              ])}
            />
            <p class="quiet">
              {limit.waiting || "none"} waiting
              {limit.paused_until && <Ago label=" · calls stopped, next" at={limit.paused_until} />}
              {limit.share < 1 && ` · at ${Math.round(limit.share * 100)} % of the rate`} <Ago label="· last used" at={limit.used_at} />
            </p>
          </Item>
        )}
      />
    </>
  );
}

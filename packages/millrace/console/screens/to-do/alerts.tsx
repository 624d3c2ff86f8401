import { type Answer, get, type Item as ItemOf, type Result } from "../../data/api.ts";
import { timeNow } from "../../data/clock.ts";
import { may } from "../../data/session.ts";
import { filtersOf, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { groupOf, ruleOf } from "../../parts/alert-words.ts";
import { Item, List } from "../../parts/list.tsx";
import { Empty, LinkTo } from "../../parts/page.tsx";
import { Status, type Tone } from "../../parts/status.tsx";
import { Ago, shortId, Text } from "../../parts/text.tsx";

type Alert = ItemOf<"/v1/alerts">;

/** The status of an alert in words. A resolved alert about new failures only means that no further failures occurred. */
function wordOf({ state, rule, severity }: Alert): [word: string, tone: Tone] {
  if (state === "firing") return ["firing", severity === "critical" ? "red" : "amber"];
  if (state === "pending") return ["pending", "quiet"];
  return ruleOf(rule).isOfArrivals ? ["no new ones", "quiet"] : ["resolved", "green"];
}

/** A page of the list without a filter by state. Firing alerts come first. */
async function firingFirst(filters: object, cursor: string | undefined): Promise<Result<Answer<"/v1/alerts">>> {
  const [firing, found] = await Promise.all([
    cursor === undefined ? get("/v1/alerts", { query: { ...filters, state: "firing", limit: "200" } }) : undefined,
    get("/v1/alerts", { query: { ...filters, cursor } }),
  ]);
  if (firing?.ok === false) return firing;
  if (!found.ok) return found;
  const others = found.data.items.filter(({ state }) => state !== "firing");
  return { ok: true, data: { ...found.data, items: [...(firing?.data.items ?? []), ...others] } };
}

export function Alerts() {
  const filters = useFilters(filtersOf("/v1/alerts"));
  if (!may("observe")) return <Empty>Alerts cover the whole deployment, not one tenant. They need a token with the scope observe.</Empty>;
  return (
    <List
      at="/v1/alerts"
      {...(filters.state === undefined && { load: (cursor) => firingFirst(filters, cursor) })}
      head={({ pages: { rows = [] } }) =>
        rows.some(({ state, notified_at, delivery }) => state !== "pending" && notified_at === null && delivery === null) && <Channels />
      }
      noun="alert"
      empty="No alert fired in the last 30 days."
      row={(alert) => <Row alert={alert} />}
    />
  );
}

/** The initial duration of a mute: 8 hours. */
const MUTED_MS = 8 * 3_600_000;

function Row({ alert }: { alert: Alert }) {
  const { id, severity, rule, labels, value, count, since, last_at, resolved_at, muted, examples } = alert;
  const [word, tone] = wordOf(alert);
  const act = muted
    ? { verb: "Unmute", at: "/v1/alerts/:id/unmute" as const }
    : { verb: "Mute", at: "/v1/alerts/:id/mute" as const, fill: { until: new Date(timeNow() + MUTED_MS).toISOString() } };
  const { says, isOfArrivals, to } = ruleOf(rule);
  const often = count === null ? `at ${value}` : count === 1 ? "once" : `${count} times`;
  const placeOf = (id: string) => hrefOf(rule.startsWith("dead_letter") ? "dead-letters" : "instances", id);
  const ended = isOfArrivals ? ", ended" : ", resolved";
  return (
    <Item
      mark={
        <>
          <Status word={word} tone={tone} />
          <br />
          <Status word={severity} tone={resolved_at ? "quiet" : undefined} />
        </>
      }
      title={
        <>
          <strong>{to ? <Link to={to(labels)}>{says}</Link> : says}</strong> <bdi>{groupOf(labels)}</bdi>
        </>
      }
      notes={[
        <>
          <code>{rule}</code> · {often} · <Ago label="started" at={since} />
          <Ago label={resolved_at ? ended : ", last seen"} at={resolved_at ?? last_at} />
          {isOfArrivals && resolved_at && "; open items may remain"}
        </>,
        <>
          <Told alert={alert} /> {muted && <Ago label="Muted until" at={muted.until} />}
          <Text before=": " of={muted?.reason} />
        </>,
        examples.length > 0 && [
          "Examples: ",
          ...examples.flatMap((id, nth) => [nth > 0 && ", ", <LinkTo key={id} to={placeOf(id)} title={id} of={shortId(id)} />]),
        ],
      ]}
      acts={[{ ...act, about: says, param: { id } }]}
    />
  );
}

function Told({ alert: { state, notified_at, delivery } }: { alert: Alert }) {
  if (notified_at !== null) return <Ago label="Notified" at={notified_at} />;
  if (state === "pending") return <>Not notified: it has not lasted as long as its rule requires.</>;
  if (delivery === null) return <>No notification was sent.</>;
  return (
    <>
      {delivery.status === "errored" ? "The notification failed" : "The notification is being sent"}
      <Text before=": " of={delivery.last_error} />.
    </>
  );
}

function Channels() {
  return (
    <p class="cause" data-tone="amber">
      For some of these no notification was sent, because no channel is set. Set <code>ALERTS_WEBHOOK_URL</code>,{" "}
      <code>ALERTS_SLACK_URL</code>, or <code>ALERTS_TELEGRAM_TOKEN</code> with <code>ALERTS_TELEGRAM_CHAT</code> in the settings of the
      Worker; see docs/alerts.md.
    </p>
  );
}

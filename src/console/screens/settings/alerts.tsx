import { useState } from "preact/hooks";
import { get, type Item, post } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { usePages } from "../../data/use-pages.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { Act } from "../../parts/act.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Id } from "../../parts/id.tsx";
import { List } from "../../parts/list.tsx";
import { Status, type Tone } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { useTold } from "./told.tsx";

type Alert = Item<"/v1/alerts">;

const FILTERS = {
  state: { label: "State", options: { firing: "firing", pending: "pending", resolved: "resolved" } },
  rule: { label: "Rule" },
} as const;

const TONES: Readonly<Record<string, Tone>> = { firing: "red", pending: "amber", resolved: "green" };

/** What people are told of the deployment's health, and muting it. */
export function Alerts() {
  const [asked, ask] = useState<Alert | undefined>();
  const filters = useFilters(FILTERS);
  const pages = usePages((cursor) => get("/v1/alerts", { query: { ...(filters as object), cursor } }), [JSON.stringify(filters)], {
    nameOf: ({ id }) => id,
    isAbout: ({ kind, data }) => kind === "action" && /mute/.test(String(data.verb)),
  });
  const { told, line } = useTold(pages.again);
  if (!may("observe")) return <Empty>Alerts are of the whole deployment, not of a tenant: they need a token with the scope observe.</Empty>;
  return (
    <>
      <FilterBar filters={FILTERS} />
      {line}
      <List
        pages={pages}
        noun={["alert", "alerts"]}
        empty={
          <Empty command="npm run demo -- observe">
            {Object.keys(filters).length > 0
              ? "No alert has these filters. Clear shows all."
              : "Nothing is or was wrong in the last 30 days. This makes something wrong:"}
          </Empty>
        }
      >
        {(rows) => (
          <ul class="settings-things">
            {rows.map((alert) => (
              <Row key={alert.id} alert={alert} ask={() => ask(alert)} />
            ))}
          </ul>
        )}
      </List>
      {asked && <Mute alert={asked} told={told} close={() => ask(undefined)} />}
    </>
  );
}

function Row({ alert, ask }: { alert: Alert; ask: () => void }) {
  const { state, severity, rule, labels, value, count, since, last_at, resolved_at, told_at, muted, examples } = alert;
  const of = Object.entries(labels).map(([name, label]) => `${name} ${label}`);
  return (
    <li>
      <Status word={state} tone={TONES[state] ?? "quiet"} />
      <div>
        <p>
          <strong>{rule}</strong> <bdi>{of.join(", ")}</bdi>
        </p>
        <p class="quiet">
          {severity} · {count === null ? `at ${value}` : `${count} times`} · since <Ago at={since} />
          {resolved_at ? (
            <>
              , resolved <Ago at={resolved_at} />
            </>
          ) : (
            <>
              , seen <Ago at={last_at} />
            </>
          )}
          {told_at === null && " · nobody was told"}
          {muted && (
            <>
              {" "}
              · muted, which ends <Ago at={muted.until} />: <bdi>{muted.reason}</bdi>
            </>
          )}
        </p>
        {examples.length > 0 && (
          <p class="quiet">
            such as, for the search box,{" "}
            {examples.map((id) => (
              <span key={id}>
                <Id id={id} />{" "}
              </span>
            ))}
          </p>
        )}
      </div>
      {may("operate") && (
        <div class="acts">
          <button type="button" onClick={ask}>
            {muted ? "Unmute" : "Mute"}
          </button>
        </div>
      )}
    </li>
  );
}

const HOUR_MS = 3_600_000;
const LENGTHS = { "1 hour": 1, "8 hours": 8, "1 day": 24, "1 week": 168, "30 days": 719 } as const;

function Mute({ alert: { id, rule, muted }, told, close }: { alert: Alert; told: (sentence: string) => void; close: () => void }) {
  const [length, setLength] = useState<keyof typeof LENGTHS>("8 hours");
  return (
    <Act<undefined, { changed: boolean }>
      title={muted ? `Tell people of ${rule} again` : `Mute ${rule}`}
      verb={muted ? "Unmute" : "Mute"}
      depends={[length]}
      show={() => (
        <p>
          {muted
            ? "What people have missed of it, they hear within seconds."
            : `Nobody is told of it for ${length}, nor of the next ones of its rule and labels. It is listed as before.`}
        </p>
      )}
      act={(reason) =>
        muted
          ? post("/v1/alerts/:id/unmute", { param: { id }, body: { reason } })
          : post("/v1/alerts/:id/mute", {
              param: { id },
              body: { reason, until: new Date(Date.now() + LENGTHS[length] * HOUR_MS).toISOString() },
            })
      }
      done={({ changed }) => told(changed ? (muted ? "It is not muted any more." : `Muted for ${length}.`) : "It was so already.")}
      close={close}
    >
      {!muted && (
        <label class="field">
          For
          <select value={length} onChange={(event) => setLength(event.currentTarget.value as keyof typeof LENGTHS)}>
            {Object.keys(LENGTHS).map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      )}
    </Act>
  );
}

import { useState } from "preact/hooks";
import { get } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { usePages } from "../../data/use-pages.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Json } from "../../parts/json.tsx";
import { List } from "../../parts/list.tsx";
import { ProblemNote } from "../../parts/problem.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/time.tsx";
import { useTold } from "../../parts/told.tsx";
import { ActOn, type Asked, Change, type Schedule } from "./schedule-acts.tsx";

const FILTERS = { name: { label: "Name", isRare: true } } as const;

async function only(name: string) {
  const found = await get("/v1/schedules/:name", { param: { name } });
  return found.ok ? { ok: true as const, data: { items: [found.data], next_cursor: null } } : found;
}

export function Schedules() {
  const [asked, ask] = useState<Asked | undefined>();
  const [changed, change] = useState<Schedule | "new" | undefined>();
  const { name } = useFilters(FILTERS);
  const pages = usePages((cursor) => (name ? only(name) : get("/v1/schedules", { query: { cursor } })), [name], {
    nameOf: (one) => one.name,
    isAbout: ({ kind, data }) => kind === "action" && /schedule/.test(String(data.verb)),
  });
  const { told, line } = useTold(pages.again);
  return (
    <>
      <div class="settings-bar">
        <p class="quiet">
          Each due time sends one command. Its key consists of the schedule's name and the due time. A command with a delay is not a
          schedule: <Link to={hrefOf("instances", { standing: "delayed" })}>delayed commands</Link>.
        </p>
        {may("operate") && (
          <button type="button" class="main" onClick={() => change("new")}>
            Create a schedule
          </button>
        )}
      </div>
      {name && <FilterBar filters={FILTERS} />}
      {line}
      <List
        pages={pages}
        noun={["schedule", "schedules"]}
        empty={
          <Empty
            command={`curl -X PUT ${location.origin}/v1/schedules/weekly -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
  -d '{"cron":"0 9 * * 1","command":{"type":"…","payload":{…}},"reason":"…"}'`}
          >
            No schedules yet. Create one here, or from a terminal:
          </Empty>
        }
      >
        {(rows) => (
          <ul class="items">
            {rows.map((one) => (
              <Row key={one.name} schedule={one} ask={ask} change={() => change(one)} />
            ))}
          </ul>
        )}
      </List>
      {asked && <ActOn {...asked} told={told} close={() => ask(undefined)} />}
      {changed && <Change schedule={changed === "new" ? undefined : changed} told={told} close={() => change(undefined)} />}
    </>
  );
}

function Row({ schedule, ask, change }: { schedule: Schedule; ask: (asked: Asked) => void; change: () => void }) {
  const { name, cron, time_zone, command, state, next_at, last_run, changed_at, changed_by, late_seconds } = schedule;
  const [isOpen, open] = useState(false);
  return (
    <li>
      <Status word={state} />
      <div>
        <p>
          <strong>{name}</strong> <code>{cron}</code> {time_zone} ·{" "}
          <Link to={hrefOf("catalog", `command ${command.type}`)}>{command.type}</Link>
        </p>
        <p class="quiet">
          {next_at ? (
            <>
              next <Ago at={next_at} />
            </>
          ) : (
            "no run while paused"
          )}
          {last_run ? (
            <>
              {" "}
              · last <Ago at={last_run.due_at} />, {last_run.state.replaceAll("_", " ")}
            </>
          ) : (
            " · no run yet"
          )}
        </p>
        <details onToggle={(event) => open(event.currentTarget.open)}>
          <summary>Command and runs</summary>
          <p class="quiet">
            Changed <Ago at={changed_at} /> by <bdi>{changed_by}</bdi>. A run more than {late_seconds} s late is recorded as missed.
          </p>
          <Json value={command} label={`Command of ${name}`} />
          {isOpen && <Runs name={name} />}
        </details>
      </div>
      {may("operate") && (
        <div class="acts">
          {(["run", state === "active" ? "pause" : "resume", "end"] as const).map((verb) => (
            <button key={verb} type="button" onClick={() => ask({ verb, name })}>
              {verb === "run" ? "Run now" : verb === "pause" ? "Pause" : verb === "resume" ? "Resume" : "End"}
            </button>
          ))}
          <button type="button" onClick={change}>
            Change
          </button>
        </div>
      )}
    </li>
  );
}

function Runs({ name }: { name: string }) {
  const { data, problem } = useData(
    () => get("/v1/schedules/:name/runs", { param: { name }, query: { limit: "20" } }),
    [name],
    ({ kind, data }) => kind === "action" && data.target === name,
  );
  if (!data) return problem ? <ProblemNote problem={problem} /> : <p class="quiet">Reading …</p>;
  if (data.items.length === 0) return <p class="quiet">No run yet.</p>;
  return (
    <ul class="settings-runs">
      {data.items.map(({ due_at, state, instance_id, reason, times, noted_at }) => (
        <li key={`${due_at} ${noted_at}`}>
          <Ago at={due_at} />
          <span>
            {state.replaceAll("_", " ")}
            {times > 1 && `, ${times} times`} {instance_id && <Link to={hrefOf("instances", instance_id)}>instance</Link>}{" "}
            {reason && <bdi>{reason}</bdi>}
          </span>
        </li>
      ))}
    </ul>
  );
}

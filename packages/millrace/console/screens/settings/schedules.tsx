import { useState } from "preact/hooks";
import { get, type Item as ItemOf, post, send } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useCatalog, useData, usePages } from "../../data/use-data.ts";
import { writtenJson } from "../../data/written.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act, TextField } from "../../parts/act.tsx";
import { JsonField } from "../../parts/answer.tsx";
import { Json } from "../../parts/json.tsx";
import { Button, Empty, Item, Items, Reading, useTold } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, timeZone } from "../../parts/text.tsx";
import { exampleOf, type Schema } from "../send/schema.ts";

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
      <Items
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
        {(one) => <Row key={one.name} schedule={one} ask={ask} change={() => change(one)} />}
      </Items>
      {asked && <ActOn {...asked} told={told} close={() => ask(undefined)} />}
      {changed && <Change schedule={changed === "new" ? undefined : changed} told={told} close={() => change(undefined)} />}
    </>
  );
}

function Row({ schedule, ask, change }: { schedule: Schedule; ask: (asked: Asked) => void; change: () => void }) {
  const { name, cron, time_zone, command, state, next_at, last_run, changed_at, changed_by, late_seconds } = schedule;
  const [isOpen, open] = useState(false);
  return (
    <Item
      mark={<Status word={state} />}
      title={
        <>
          <strong>{name}</strong> <code>{cron}</code> {time_zone} ·{" "}
          <Link to={hrefOf("catalog", `command ${command.type}`)}>{command.type}</Link>
        </>
      }
      notes={[
        <>
          {next_at ? <Ago label="next" at={next_at} /> : "no run while paused"} ·{" "}
          {last_run ? <Ago label="last" at={last_run.due_at} /> : "no run yet"}
          {last_run && `, ${last_run.state.replaceAll("_", " ")}`}
        </>,
      ]}
      acts={
        <>
          {(["run", state === "active" ? "pause" : "resume", "end"] as const).map((verb) => (
            <Button key={verb} press={() => ask({ verb, name })}>
              {WORDS[verb][0]}
            </Button>
          ))}
          <Button press={change}>Change</Button>
        </>
      }
    >
      <details onToggle={(event) => open(event.currentTarget.open)}>
        <summary>Command and runs</summary>
        <p class="quiet">
          <Ago label="Changed" at={changed_at} /> by <bdi>{changed_by}</bdi>. A run more than {late_seconds} s late is recorded as missed.
        </p>
        <Json value={command} label={`Command of ${name}`} />
        {isOpen && <Runs name={name} />}
      </details>
    </Item>
  );
}

function Runs({ name }: { name: string }) {
  const { data, problem } = useData(
    () => get("/v1/schedules/:name/runs", { param: { name }, query: { limit: "20" } }),
    [name],
    ({ kind, data }) => kind === "action" && data.target === name,
  );
  if (!data) return <Reading problem={problem} />;
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

export type Schedule = ItemOf<"/v1/schedules">;

export interface Asked {
  verb: "run" | "pause" | "resume" | "end";
  name: string;
}

const WORDS = {
  run: ["Run now", "The command is sent now, in addition to the schedule. The schedule does not change.", "The run was started."],
  pause: [
    "Pause",
    "No run starts until the schedule is resumed. Times that pass meanwhile are recorded as paused and not made up.",
    "Paused.",
  ],
  resume: ["Resume", "Runs start again from now on. Missed times are not made up.", "Resumed."],
  end: ["End", "The schedule ends, and its runs stop. The past runs remain readable.", "Ended."],
} as const;

interface AskProps {
  told: (sentence: string) => void;
  close: () => void;
}

function ActOn({ verb, name, told, close }: Asked & AskProps) {
  const [word, means, done] = WORDS[verb];
  const param = { name };
  return (
    <Act<undefined, unknown>
      title={`${word}: ${name}`}
      verb={word}
      show={() => <p>{means}</p>}
      act={(reason, key) =>
        verb === "end"
          ? send("DELETE", "/v1/schedules/:name", { param, query: { reason } })
          : verb === "run"
            ? post("/v1/schedules/:name/run", { param, body: { reason }, key })
            : post(`/v1/schedules/:name/${verb}`, { param, body: { reason } })
      }
      {...(verb === "run" && { on: name })}
      done={() => told(`${name}: ${done}`)}
      close={close}
    />
  );
}

function Change({ schedule, told, close }: AskProps & { schedule: Schedule | undefined }) {
  const [opened] = useState(schedule);
  const [name, setName] = useState(schedule?.name ?? "");
  const [cron, setCron] = useState(schedule?.cron ?? "0 9 * * 1");
  const [zone, setZone] = useState(schedule?.time_zone ?? timeZone());
  const [type, setType] = useState(schedule?.command.type ?? "");
  const [text, setText] = useState(JSON.stringify(schedule?.command.payload ?? {}, null, 2));
  const { data: catalog } = useCatalog();
  const commands = catalog?.messages.filter(({ kind, door }) => kind === "command" && door?.scope !== null) ?? [];
  const payload = writtenJson(text);
  const isReady = /^[a-z0-9][a-z0-9_-]*$/.test(name) && cron.trim() !== "" && type !== "" && payload.wrong === undefined;
  const choose = (next: string) => {
    setType(next);
    const found = commands.find((one) => one.type === next);
    if (found) setText(JSON.stringify(exampleOf(found.payload_schema as Schema), null, 2));
  };
  return (
    <Act<undefined, unknown>
      title={schedule ? `Change ${name}` : "Create a schedule"}
      verb={schedule ? "Change" : "Create"}
      isReady={isReady}
      depends={[name, cron, zone, type, text]}
      show={() => (
        <p>
          {type} is sent at <code>{cron}</code>in the time zone {zone}.
        </p>
      )}
      act={(reason) =>
        send("PUT", "/v1/schedules/:name", {
          param: { name },
          body: {
            ...{ cron, time_zone: zone, reason, command: { type, payload } },
            // The revision of the schedule when the dialog opened, so that a concurrent change is not overwritten.
            revision: opened?.revision ?? 0,
            ...(opened && { late_seconds: opened.late_seconds }),
          },
        })
      }
      done={() => told(`${name}: ${schedule ? "Changed." : "Created."}`)}
      close={close}
    >
      {!schedule && <TextField label="Name: lower case letters, digits, - and _" most={80} value={name} set={setName} />}
      <TextField label="When: minute, hour, day of the month, month, day of the week" most={100} value={cron} set={setCron} />
      <TextField label="Time zone" most={60} value={zone} set={setZone} />
      <label class="field">
        Command
        <select value={type} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">choose</option>
          {commands.map((one) => (
            <option key={one.type} value={one.type}>
              {one.type}
            </option>
          ))}
        </select>
      </label>
      <JsonField label="Payload" text={text} change={setText} />
    </Act>
  );
}

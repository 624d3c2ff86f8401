import { useState } from "preact/hooks";
import { get, type Item as ItemOf } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useCatalog, useData, usePages } from "../../data/use-data.ts";
import { writtenJson } from "../../data/written.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Act, TextField } from "../../parts/act.tsx";
import { JsonField } from "../../parts/answer.tsx";
import { type Asker, useActs } from "../../parts/dialog.tsx";
import { Json } from "../../parts/json.tsx";
import { Button, Item, Items, Lines, Reading } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, Text, timeZone } from "../../parts/text.tsx";
import { exampleOf, type Schema } from "../send/schema.ts";

const FILTERS = { name: { label: "Name", isRare: true } } as const;

async function only(name: string) {
  const found = await get("/v1/schedules/:name", { param: { name } });
  return found.ok ? { ok: true as const, data: { items: [found.data], next_cursor: null } } : found;
}

export function Schedules() {
  const { name } = useFilters(FILTERS);
  const pages = usePages((cursor) => (name ? only(name) : get("/v1/schedules", { query: { cursor } })), [name], {
    nameOf: (one) => one.name,
  });
  const { ask, line } = useActs(pages.again);
  return (
    <>
      <div class="settings-bar">
        <p class="quiet">
          Each due time sends one command. Its key consists of the schedule's name and the due time. A command with a delay is not a
          schedule: <Link to={hrefOf("instances", { standing: "delayed" })}>delayed commands</Link>.
        </p>
        {may("operate") && (
          <Button class="main" press={() => ask(Change, {})}>
            Create a schedule
          </Button>
        )}
      </div>
      {name && <FilterBar filters={FILTERS} />}
      {line}
      <Items
        pages={pages}
        noun={["schedule", "schedules"]}
        command={`curl -X PUT ${location.origin}/v1/schedules/weekly -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
  -d '{"cron":"0 9 * * 1","command":{"type":"…","payload":{…}},"reason":"…"}'`}
        empty="No schedules yet. Create one here, or from a terminal:"
      >
        {(one) => <Row key={one.name} schedule={one} ask={ask} />}
      </Items>
    </>
  );
}

function Row({ schedule, ask }: { schedule: Schedule; ask: ReturnType<typeof useActs>["ask"] }) {
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
          {last_run ? <Ago label="last" at={last_run.due_at} /> : "no run recorded"}
          {last_run && `, ${last_run.state.replaceAll("_", " ")}`}
        </>,
      ]}
      acts={
        <>
          {(["run", state === "active" ? "pause" : "resume", "end"] as const).map((verb) => (
            <Button key={verb} press={() => ask(ActOn, { verb, name })}>
              {WORDS[verb][0]}
            </Button>
          ))}
          <Button press={() => ask(Change, { schedule })}>Change</Button>
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
  const { data, problem } = useData(() => get("/v1/schedules/:name/runs", { param: { name }, query: { limit: "20" } }), [name], ["action"]);
  if (!data) return <Reading problem={problem} />;
  if (data.items.length === 0) return <p class="quiet">No run recorded.</p>;
  return (
    <Lines
      columns="88px 1fr"
      of={data.items.map(({ due_at, state, instance_id, reason, times }) => [
        <Ago key="at" at={due_at} />,
        <>
          {state.replaceAll("_", " ")}
          {times > 1 && `, ${times} times`} {instance_id && <Link to={hrefOf("instances", instance_id)}>instance</Link>}{" "}
          <Text of={reason} />
        </>,
      ])}
    />
  );
}

type Schedule = ItemOf<"/v1/schedules">;

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

function ActOn({ verb, name, ...asker }: Asker & { verb: keyof typeof WORDS; name: string }) {
  const [word, means, done] = WORDS[verb];
  const route = verb === "end" ? ({ at: "/v1/schedules/:name", how: "DELETE" } as const) : { at: `/v1/schedules/:name/${verb}` as const };
  return (
    <Act
      {...asker}
      {...route}
      title={`${word}: ${name}`}
      verb={word}
      param={{ name }}
      {...(verb === "run" && { on: name })}
      show={means}
      said={`${name}: ${done}`}
    />
  );
}

const FIRST = {
  name: "",
  cron: "0 9 * * 1",
  time_zone: undefined,
  command: { type: "", schema_version: undefined, payload: {} },
  revision: 0,
};

function Change({ schedule, ...asker }: Asker & { schedule?: Schedule }) {
  const { name: named, cron, time_zone = timeZone(), command, revision } = schedule ?? FIRST;
  const { type, schema_version, payload: stored } = command;
  const [said, say] = useState({ name: named, cron, time_zone, type, schema_version, text: JSON.stringify(stored, null, 2) });
  const { data: catalog } = useCatalog();
  const commands = catalog?.messages.filter(({ kind, door }) => kind === "command" && door?.scope !== null) ?? [];
  const payload = writtenJson(said.text);
  const isReady = /^[a-z0-9][a-z0-9_-]*$/.test(said.name) && said.cron.trim() !== "" && said.type !== "" && payload.wrong === undefined;
  const choose = (type: string) => {
    const found = commands.find((one) => one.type === type);
    say({
      ...said,
      type,
      schema_version: undefined,
      ...(found && { text: JSON.stringify(exampleOf(found.payload_schema as Schema), null, 2) }),
    });
  };
  const field = (name: "name" | "cron" | "time_zone", label: string, most: number) => (
    <TextField label={label} most={most} value={said[name]} set={(text) => say({ ...said, [name]: text })} />
  );
  return (
    <Act
      {...asker}
      title={schedule ? `Change ${named}` : "Create a schedule"}
      verb={schedule ? "Change" : "Create"}
      missing={!isReady && "Fill in or correct the fields above."}
      at="/v1/schedules/:name"
      how="PUT"
      param={{ name: said.name }}
      body={{
        ...{ cron: said.cron, time_zone: said.time_zone, command: { type: said.type, schema_version: said.schema_version, payload } },
        // The revision of the schedule when the dialog opened, so that a concurrent change is not overwritten.
        revision,
        ...(schedule && { late_seconds: schedule.late_seconds }),
      }}
      show={
        <>
          {said.type} is sent at <code>{said.cron}</code>in the time zone {said.time_zone}.
        </>
      }
      said={`${said.name}: ${schedule ? "Changed." : "Created."}`}
    >
      {!schedule && field("name", "Name: lower case letters, digits, - and _", 80)}
      {field("cron", "When: minute, hour, day of the month, month, day of the week", 100)}
      {field("time_zone", "Time zone", 60)}
      <label class="field">
        Command
        <select value={said.type} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">choose</option>
          {commands.map((one) => (
            <option key={one.type} value={one.type}>
              {one.type}
            </option>
          ))}
        </select>
      </label>
      <JsonField label="Payload" text={said.text} change={(text) => say({ ...said, text })} />
    </Act>
  );
}

import { useState } from "preact/hooks";
import { type Answer, get, type Item as ItemOf } from "../../data/api.ts";
import { exampleOf, type Schema } from "../../data/schema.ts";
import { may } from "../../data/session.ts";
import { useCatalog, useData } from "../../data/use-data.ts";
import { RARE, useFilters } from "../../frame/filters.tsx";
import { hrefOf, Link } from "../../frame/router.tsx";
import { ActButtons, type Declared } from "../../parts/act.tsx";
import { Json } from "../../parts/json.tsx";
import { Item, List } from "../../parts/list.tsx";
import { Lines, Reading } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago, inWords, Text, timeZone } from "../../parts/text.tsx";

const FILTERS = { name: { label: "Name", ...RARE } };

async function only(name: string) {
  const found = await get("/v1/schedules/:name", { param: { name } });
  return found.ok ? { ok: true as const, data: { items: [found.data], next_cursor: null } } : found;
}

export function Schedules() {
  const { name } = useFilters(FILTERS);
  const { data: catalog } = useCatalog();
  const commands = catalog?.messages.filter(({ kind, access }) => kind === "command" && access?.scope !== null) ?? [];
  return (
    <List
      at="/v1/schedules"
      filters={FILTERS}
      nameOf={(one) => one.name}
      {...(name && { load: () => only(name) })}
      head={() => (
        <div class="settings-bar">
          <p class="quiet">
            Each due time sends one command. Its key consists of the schedule's name and the due time. A command with a delay is not a
            schedule: <Link to={hrefOf("instances", { activity: "delayed" })}>delayed commands</Link>.
          </p>
          {may("operate") && <ActButtons of={[{ ...change(commands), class: "main" }]} />}
        </div>
      )}
      noun="schedule"
      empty="No schedules yet."
      row={(schedule) => <Row {...{ schedule, commands }} />}
    />
  );
}

function Row({ schedule, commands }: { schedule: Schedule; commands: readonly Command[] }) {
  const { name, cron, time_zone, command, state, next_at, last_run, changed_at, changed_by, late_seconds } = schedule;
  const [isOpen, open] = useState(false);
  const which = { about: name, param: { name } };
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
          {last_run && `, ${inWords(last_run.state)}`}
        </>,
      ]}
      acts={[
        { verb: "Run now", at: "/v1/schedules/:name/run", ...which },
        state === "active"
          ? { verb: "Pause", at: "/v1/schedules/:name/pause", ...which }
          : { verb: "Resume", at: "/v1/schedules/:name/resume", ...which },
        { verb: "End", at: "/v1/schedules/:name", how: "DELETE", ...which },
        change(commands, schedule),
      ]}
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
          {inWords(state)}
          {times > 1 && `, ${times} times`} {instance_id && <Link to={hrefOf("instances", instance_id)}>instance</Link>}{" "}
          <Text of={reason} />
        </>,
      ])}
    />
  );
}

type Schedule = ItemOf<"/v1/schedules">;
type Command = Answer<"/v1/catalog">["messages"][number];

/** The action that creates or changes a schedule. Its dialog can fill in the example of a command. */
function change(commands: readonly Command[], schedule?: Schedule): Declared {
  const { name, cron = "0 9 * * 1", time_zone = timeZone(), late_seconds, command = { type: "", payload: {} } } = schedule ?? {};
  // The example names a required field without an example value, such as a number.
  const exampleFor = (type: string) =>
    JSON.parse(JSON.stringify(exampleOf(commands.find((one) => one.type === type)?.payload_schema as Schema), (_, one) => one ?? null));
  return {
    ...{ verb: schedule ? "Change" : "Create a schedule", at: "/v1/schedules/:name", how: "PUT" },
    ...(name && { about: name, param: { name } }),
    // The revision of the schedule when the dialog opened, so that a concurrent change is not overwritten.
    given: { revision: schedule?.revision ?? 0 },
    fill: { cron, time_zone, command, ...(late_seconds && { late_seconds }) },
    more: (set) => (
      <label class="field">
        Example of a command
        <select onChange={({ currentTarget: { value: type } }) => set({ command: { type, payload: exampleFor(type) } })}>
          <option value="">choose</option>
          {commands.map(({ type }) => (
            <option key={type}>{type}</option>
          ))}
        </select>
      </label>
    ),
  };
}

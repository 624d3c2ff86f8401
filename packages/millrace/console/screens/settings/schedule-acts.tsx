import { useState } from "preact/hooks";
import { type Item, post, send } from "../../data/api.ts";
import { useCatalog } from "../../data/use-catalog.ts";
import { writtenJson } from "../../data/written.ts";
import { Act } from "../../parts/act.tsx";
import { JsonField } from "../../parts/answer.tsx";
import { timeZone } from "../../parts/time.tsx";
import { exampleOf, type Schema } from "../send/schema.ts";

export type Schedule = Item<"/v1/schedules">;

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

export function ActOn({ verb, name, told, close }: Asked & AskProps) {
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

export function Change({ schedule, told, close }: AskProps & { schedule: Schedule | undefined }) {
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
      {!schedule && (
        <label class="field">
          Name: lower case letters, digits, - and _
          <input type="text" autocomplete="off" maxLength={80} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
      )}
      <label class="field">
        When: minute, hour, day of the month, month, day of the week
        <input type="text" autocomplete="off" maxLength={100} value={cron} onInput={(event) => setCron(event.currentTarget.value)} />
      </label>
      <label class="field">
        Time zone
        <input type="text" autocomplete="off" maxLength={60} value={zone} onInput={(event) => setZone(event.currentTarget.value)} />
      </label>
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

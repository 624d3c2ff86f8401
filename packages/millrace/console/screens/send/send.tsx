import type { ComponentChildren } from "preact";
import { useCatalog } from "../../data/use-data.ts";
import { useFilters } from "../../frame/filters.tsx";
import { setFilters } from "../../frame/router.tsx";
import { Empty, ProblemNote } from "../../parts/page.tsx";
import { Draft, nameOf } from "./draft.tsx";
import "./send.css";

const FILTERS = { message: { label: "Message" }, example: { label: "Example" }, as: { label: "As" } } as const;

export function Send() {
  const { data: catalog, problem } = useCatalog();
  const set = useFilters(FILTERS);
  if (!catalog) return <Frame>{problem ? <ProblemNote problem={problem} /> : <p class="quiet">Reading …</p>}</Frame>;
  const open = catalog.messages.filter(({ door }) => door !== null && door.scope !== null);
  const first = catalog.first_command;
  const asked = set.message ?? (first ? nameOf({ kind: "command", type: first.type }) : undefined);
  const found = open.find((one) => nameOf(one) === asked || one.type === asked);
  const message = found ?? open[0];
  if (!message)
    return (
      <Frame>
        <Empty command={'defineEvent({ …, door: { scope: "enqueue" } })'}>
          Nothing can be sent from outside: no workflow handles a command, and no event declares a door.
        </Empty>
      </Frame>
    );
  const isFirst = first !== null && first.type === message.type && set.example === "first";
  return (
    <Frame>
      <label class="field send-which">
        Message
        <select value={nameOf(message)} onChange={(event) => setFilters({ message: event.currentTarget.value, example: undefined })}>
          {(["command", "event"] as const).map((kind) => (
            <optgroup key={kind} label={kind === "command" ? "Commands: each starts one workflow" : "Events: delivered to all consumers"}>
              {open
                .filter((one) => one.kind === kind)
                .map((one) => (
                  <option key={one.type} value={nameOf(one)}>
                    {one.type}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      </label>
      {set.message !== undefined && !found && (
        <p class="problem" role="alert">
          No message <bdi>{set.message}</bdi> can be sent from outside. Choose another one.
        </p>
      )}
      {first && isFirst && <p class="send-first">{first.why}</p>}
      <Draft
        key={`${nameOf(message)} ${isFirst}`}
        message={message}
        {...(isFirst && { first: first.payload })}
        isJson={set.as === "json"}
      />
    </Frame>
  );
}

function Frame({ children }: { children: ComponentChildren }) {
  return (
    <>
      <h1>Send</h1>
      {children}
    </>
  );
}

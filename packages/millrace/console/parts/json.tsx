import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { may } from "../data/session.ts";
import { Button } from "./page.tsx";
import { copied } from "./text.tsx";
import "./json.css";

/** The number of members of an object or array that are shown initially. */
const MEMBERS = 100;
/** Levels of JSON are initially open until all open levels together would have more lines than this. */
const LINES = 200;

export function Json({ value, label }: { value: unknown; label: string }) {
  const text = JSON.stringify(value, null, 2) ?? "";
  const [levels] = useState(() => openLevels(value));
  return (
    <JsonText label={label} text={text}>
      {value !== undefined && <Node value={value} depth={0} levels={levels} path={label} />}
    </JsonText>
  );
}

/** A JSON value that is shown when the user opens its title. */
export function Folded({ title, label, value, ...rest }: { title: string; label: string; value: unknown; class?: string; open?: boolean }) {
  return (
    <details {...rest}>
      <summary>{title}</summary>
      <Json value={value} label={label} />
    </details>
  );
}

interface JsonTextProps {
  text: string;
  label: string;
  /** Further texts that buttons copy, by the button's label. */
  others?: Readonly<Record<string, string>>;
  /** Default: the text. */
  children?: ComponentChildren;
}

/** A text with a button that copies it. */
export function JsonText({ text, label, others = {}, children = text }: JsonTextProps) {
  const [copy, setCopy] = useState("");
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content needs keyboard access
    <section class="json" tabIndex={0} aria-label={label}>
      <p class="corner">
        {Object.entries({ Copy: text, ...others }).map(([name, what]) => (
          <button key={name} type="button" class="plain" onClick={async () => setCopy((await copied(what)) ? name : "")}>
            {copy === name ? "Copied" : name}
          </button>
        ))}
      </p>
      <pre dir="ltr">{children}</pre>
    </section>
  );
}

const isHidden = (value: unknown) => JSON.stringify(value)?.includes("[redacted]");

/** A button that shows the redacted values of `of`. `note` is a sentence about them. */
export function Reveal({ of, press, note = "" }: { of: unknown; press: () => void; note?: string }) {
  if (!isHidden(of)) return null;
  if (!may("reveal")) return <p class="quiet">Some fields are withheld. A token with the scope reveal can show them.{note}</p>;
  return (
    <p class="acts">
      <Button press={press}>Reveal withheld fields</Button>
      <span class="quiet">This is recorded in the audit.{note}</span>
    </p>
  );
}

const membersOf = (value: unknown) => (typeof value === "object" && value !== null ? Object.entries(value) : []);

/** The number of levels of a JSON value that are initially open. */
function openLevels(value: unknown): number {
  let level = [value];
  let lines = 0;
  for (let depth = 0; ; depth++) {
    level = level.flatMap((one) => membersOf(one).slice(0, MEMBERS)).map(([, one]) => one);
    lines += level.length;
    if (level.length === 0 || lines > LINES) return Math.max(depth, 1);
  }
}

interface NodeProps {
  name?: string;
  value: unknown;
  depth: number;
  levels: number;
  /** The path of the node in the JSON value, which screen readers use as the node's name. */
  path: string;
}

/** Shows a value as formatted JSON. If all levels are open, the shown text equals `JSON.stringify(value, null, 2)`. */
function Node({ name, value, ...place }: NodeProps) {
  const members = membersOf(value);
  const named = name !== undefined && `${JSON.stringify(name)}: `;
  if (members.length > 0) return <Fold {...place} named={named} members={members} isList={Array.isArray(value)} />;
  return (
    <>
      {named}
      <span class={kindOf(value)}>{JSON.stringify(value)}</span>
    </>
  );
}

const kindOf = (value: unknown) => (typeof value === "object" && value !== null ? undefined : value === null ? "boolean" : typeof value);

interface FoldProps extends Omit<NodeProps, "name" | "value"> {
  named: string | false;
  members: [string, unknown][];
  isList: boolean;
}

function Fold({ named, members, isList, depth, levels, path }: FoldProps) {
  const [isOpen, setOpen] = useState(depth < levels);
  const [most, setMost] = useState(MEMBERS);
  const [start, end] = isList ? "[]" : "{}";
  const line = `\n${"  ".repeat(depth)}`;
  const count = members.length;
  return (
    <>
      <button type="button" class="fold" aria-expanded={isOpen} aria-label={path} onClick={() => setOpen(!isOpen)} />
      {named}
      {start}
      {isOpen ? (
        members.slice(0, most).map(([name, value], nth) => (
          <span key={name}>
            {line}
            {"  "}
            <Node {...(!isList && { name })} value={value} depth={depth + 1} levels={levels} path={isList ? `item ${nth + 1}` : name} />
            {nth < count - 1 && ","}
          </span>
        ))
      ) : (
        <span class="quiet"> {`${count} ${isList ? "item" : "field"}${count === 1 ? "" : "s"}`} </span>
      )}
      {isOpen && count > most && (
        <>
          {line}
          {"  "}
          <Button press={() => setMost(most * 10)}>
            Show {Math.min(most * 9, count - most)} more of {count}
          </Button>
        </>
      )}
      {isOpen && line}
      {end}
    </>
  );
}

import { useState } from "preact/hooks";
import { copied } from "./id.tsx";

/** More than this is shown when it is asked for. */
const SHOWN = 20_000;

/** Any value as indented JSON: always text, whatever it holds. */
export function Json({ value, label }: { value: unknown; label: string }) {
  return <JsonText text={JSON.stringify(value, null, 2) ?? "nothing"} label={label} />;
}

/** A text of JSON as it is, which can be copied; and other texts of the same, by what copies them. */
export function JsonText({ text, label, others = {} }: { text: string; label: string; others?: Readonly<Record<string, string>> }) {
  const [isWhole, showWhole] = useState(false);
  const [copy, setCopy] = useState("");
  const shown = isWhole ? text : text.slice(0, SHOWN);
  return (
    <section class="json" aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be scrolled by keys */}
      <pre tabIndex={0} dir="ltr">
        {shown}
      </pre>
      <p class="quiet">
        {shown.length < text.length && (
          <button type="button" onClick={() => showWhole(true)}>
            Show all {text.length} characters
          </button>
        )}
        {Object.entries({ Copy: text, ...others }).map(([name, what]) => (
          <button key={name} type="button" class="plain" onClick={async () => setCopy((await copied(what)) ? name : "")}>
            {copy === name ? "Copied" : name}
          </button>
        ))}
      </p>
    </section>
  );
}

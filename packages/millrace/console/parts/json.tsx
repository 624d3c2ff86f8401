import { useState } from "preact/hooks";
import { copied } from "./id.tsx";

/** Longer texts are shown on request. */
const SHOWN = 20_000;

export function Json({ value, label }: { value: unknown; label: string }) {
  return <JsonText text={JSON.stringify(value, null, 2) ?? "nothing"} label={label} />;
}

export function JsonText({ text, label, others = {} }: { text: string; label: string; others?: Readonly<Record<string, string>> }) {
  const [isWhole, showWhole] = useState(false);
  const [copy, setCopy] = useState("");
  const shown = isWhole ? text : text.slice(0, SHOWN);
  return (
    <section class="json" aria-label={label}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content needs keyboard access */}
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

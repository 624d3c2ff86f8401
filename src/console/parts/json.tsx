import { useState } from "preact/hooks";
import { copied } from "./id.tsx";

/** More than this is shown when it is asked for. */
const SHOWN = 20_000;

/** Any value as indented JSON: always text, whatever it holds. */
export function Json({ value, label }: { value: unknown; label: string }) {
  const [isWhole, showWhole] = useState(false);
  const [isCopied, setCopied] = useState(false);
  const text = JSON.stringify(value, null, 2) ?? "nothing";
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
        <button type="button" class="plain" onClick={async () => setCopied(await copied(text))}>
          {isCopied ? "Copied" : "Copy"}
        </button>
      </p>
    </section>
  );
}

import { useState } from "preact/hooks";
import { jsonText, readJson, Written, writtenJson } from "../../data/written.ts";
import { setFilters } from "../../frame/router.tsx";
import { JsonField } from "../../parts/answer.tsx";
import { Fields, type Told } from "./form.tsx";
import { controlOf, type Schema } from "./schema.ts";

interface SaysProps {
  schema: Schema;
  payload: unknown;
  change: (payload: unknown) => void;
  example: unknown;
  isJson: boolean;
  told: Told;
}

export function Says({ schema, payload, change, example, isJson, told }: SaysProps) {
  const [round, setRound] = useState(0);
  const text = jsonText(payload, "  ");
  const read = payload instanceof Written ? readJson(text) : { value: payload };
  const isForm = !isJson && controlOf(schema) === "group";
  return (
    <>
      <div class="send-as">
        {(["form", "json"] as const).map((as) => (
          <button
            key={as}
            type="button"
            aria-pressed={(as === "json") === isJson}
            onClick={() => setFilters({ as: as === "json" ? as : undefined })}
          >
            {as === "json" ? "JSON" : "Form"}
          </button>
        ))}
        {example !== undefined && payload !== example && (
          <button type="button" class="plain" onClick={() => [change(example), setRound(round + 1)]}>
            Reset to the example
          </button>
        )}
      </div>
      {isForm && "why" in read && <p class="send-first">The form cannot show this payload: {read.why} Correct it here.</p>}
      {!isForm || "why" in read ? (
        <JsonField label="Payload" text={text} change={(next) => change(writtenJson(next))} />
      ) : (
        <Fields key={round} {...{ schema, value: read.value, path: "payload", told }} set={change} />
      )}
    </>
  );
}

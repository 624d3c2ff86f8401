import { useState } from "preact/hooks";
import { JsonField, parsed } from "../../parts/answer.tsx";
import { controlOf, opened, type Schema, wordsOf } from "./schema.ts";

interface FieldProps {
  name: string;
  schema: Schema;
  value: unknown;
  /** Undefined takes it out of what is sent. */
  set: (value: unknown) => void;
  isRequired: boolean;
  /** Where it stands, as the API's issues name it. */
  path: string;
  issues: ReadonlyMap<string, string>;
}

/** The fields of an object, each made from its own schema. */
export function Fields({ schema, value, set, path, issues }: Omit<FieldProps, "name" | "isRequired">) {
  const { properties = {}, required = [] } = opened(schema);
  const held = (typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}) as Record<string, unknown>;
  const change = (name: string, next: unknown) => {
    const { [name]: _, ...rest } = held;
    set(next === undefined ? rest : { ...held, [name]: next });
  };
  return (
    <>
      {Object.entries(properties).map(([name, one]) => (
        <Field
          key={name}
          {...{ name, issues, schema: one, value: held[name], path: `${path}.${name}` }}
          set={(next) => change(name, next)}
          isRequired={required.includes(name)}
        />
      ))}
    </>
  );
}

function Field(props: FieldProps) {
  const { name, schema, path, issues, isRequired, value, set } = props;
  const control = controlOf(schema);
  if (control === "json") return <AnyJson {...props} />;
  if (control === "group") {
    return (
      <fieldset class="send-group">
        <legend>
          {name} <Hint {...props} />
        </legend>
        {!isRequired && value === undefined ? (
          <button type="button" onClick={() => set({})}>
            Add {name}
          </button>
        ) : (
          <Fields {...{ schema, value, set, path, issues }} />
        )}
      </fieldset>
    );
  }
  const issue = [...issues].find(([at]) => at === path || at.startsWith(`${path}.`))?.[1];
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: it is in Control
    <label class="field">
      <span>
        {name} <Hint {...props} />
      </span>
      <Control {...props} isWrong={issue !== undefined} />
      {issue && <span class="wrong">{issue}</span>}
    </label>
  );
}

function Hint({ schema, isRequired }: Pick<FieldProps, "schema" | "isRequired">) {
  return <span class="quiet send-hint">{[isRequired ? "" : "optional", wordsOf(schema)].filter(Boolean).join(" · ")}</span>;
}

function Control({ schema, value, set, isRequired, isWrong }: FieldProps & { isWrong: boolean }) {
  const control = controlOf(schema);
  const said = opened(schema);
  const wrong = isWrong || undefined;
  if (control === "choice" || control === "yes or no") {
    const choices = control === "choice" ? (said.enum ?? []) : [true, false];
    return (
      <select
        aria-invalid={wrong}
        value={JSON.stringify(value) ?? ""}
        onChange={({ currentTarget: { value: text } }) => set(text === "" ? undefined : JSON.parse(text))}
      >
        {(!isRequired || value === undefined) && <option value="">{isRequired ? "choose" : "leave it out"}</option>}
        {choices.map((one) => (
          <option key={JSON.stringify(one)} value={JSON.stringify(one)}>
            {one === true ? "yes" : one === false ? "no" : String(one)}
          </option>
        ))}
      </select>
    );
  }
  if (control === "list") {
    const isOfNumbers = controlOf(said.items ?? {}) === "number";
    const lines = Array.isArray(value) ? value : [];
    return (
      <textarea
        aria-invalid={wrong}
        rows={3}
        spellcheck={false}
        placeholder="one a line"
        value={lines.join("\n")}
        onInput={({ currentTarget: { value: text } }) =>
          set(text === "" ? undefined : text.split("\n").map((line) => (isOfNumbers ? numberIn(line) : line)))
        }
      />
    );
  }
  const isNumber = control === "number";
  const example = said.default ?? said.examples?.[0];
  return (
    <input
      type="text"
      aria-invalid={wrong}
      inputMode={isNumber ? "decimal" : undefined}
      autocomplete="off"
      spellcheck={false}
      required={isRequired}
      placeholder={example === undefined ? undefined : String(example)}
      value={value === undefined ? "" : String(value)}
      onInput={({ currentTarget: { value: text } }) => set(text === "" ? undefined : isNumber ? numberIn(text) : text)}
    />
  );
}

/** A number; what is none yet stays a text, and the engine says what is wrong with it. */
function numberIn(text: string): unknown {
  return /^-?\d+(\.\d*[1-9])?$/.test(text) ? Number(text) : text;
}

/** A field of a shape that no simpler control has. */
function AnyJson({ name, schema, value, set, isRequired, path, issues }: FieldProps) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2) ?? "");
  const change = (next: string) => {
    setText(next);
    if (next.trim() === "") set(undefined);
    else {
      const found = parsed(next);
      if (found) set(found.value);
    }
  };
  const issue = [...issues].find(([at]) => at === path || at.startsWith(`${path}.`))?.[1];
  const label = [name, isRequired ? "" : "optional", "JSON", wordsOf(schema)].filter(Boolean).join(" · ");
  return (
    <>
      <JsonField label={label} text={text} change={change} mayBeEmpty={!isRequired} />
      {issue && <p class="wrong">{issue}</p>}
    </>
  );
}

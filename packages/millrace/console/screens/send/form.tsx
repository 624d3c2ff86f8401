import { useState } from "preact/hooks";
import { jsonText, readJson, Written, writtenJson, writtenNumber } from "../../data/written.ts";
import { setFilters } from "../../frame/router.tsx";
import { Check } from "../../parts/act.tsx";
import { JsonField } from "../../parts/answer.tsx";
import { Button } from "../../parts/page.tsx";
import { controlFor, controlOf, exampleOf, isNullable, itemsOf, opened, type Schema, wordsOf } from "./schema.ts";

interface Told {
  issues: ReadonlyMap<string, string>;
  /** True if the form also shows the issues of fields that the user has not edited. */
  isAll: boolean;
}

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
          <Button class="plain" press={() => [change(example), setRound(round + 1)]}>
            Reset to the example
          </Button>
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

interface FieldProps {
  name: string;
  schema: Schema;
  value: unknown;
  set: (value: unknown) => void;
  isRequired: boolean;
  path: string;
  told: Told;
}

function Fields({ schema, value, set, path, told }: Omit<FieldProps, "name" | "isRequired">) {
  const { properties = {}, required = [] } = opened(schema);
  const held = (typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}) as Record<string, unknown>;
  const change = (name: string, next: unknown) => {
    const { [name]: _, ...rest } = held;
    set(next === undefined ? rest : { ...held, [name]: next });
  };
  const others = Object.keys(held).filter((name) => !Object.hasOwn(properties, name));
  const fields: [string, Schema][] = [...Object.entries(properties), ...others.map((name): [string, Schema] => [name, {}])];
  return (
    <>
      {fields.map(([name, one]) => (
        <Field
          key={name}
          {...{ name, told, schema: one, value: held[name], path: `${path}.${name}` }}
          set={(next) => change(name, next)}
          isRequired={required.includes(name)}
        />
      ))}
    </>
  );
}

function Field(given: FieldProps) {
  const { name, schema, path, told, isRequired, value } = given;
  // The control is chosen only once, so that it does not change while the user types.
  const [control] = useState(() => controlFor(schema, value));
  const [isTouched, touch] = useState(false);
  const set = (next: unknown) => {
    touch(true);
    given.set(next);
  };
  const said = told.isAll || isTouched ? [...told.issues].find(([at]) => at === path || at.startsWith(`${path}.`))?.[1] : undefined;
  const issue = value instanceof Written && control === "number" ? (value.wrong ?? said) : said;
  const props = { ...given, set, issue };
  if (control === "json") return <AnyJson {...props} />;
  const isGroup = control === "group" || control === "list";
  const inner = isGroup ? (
    <fieldset class="send-group">
      <legend>
        {name} <Hint {...props} />
      </legend>
      {value === null ? (
        <p class="quiet">null</p>
      ) : control === "list" ? (
        <Items {...props} />
      ) : !isRequired && value === undefined ? (
        <Button press={() => set(exampleOf(opened(schema)))}>Add {name}</Button>
      ) : (
        <Fields {...{ schema, value, set, path, told }} />
      )}
      {control === "list" && issue && <p class="wrong">{issue}</p>}
    </fieldset>
  ) : (
    // biome-ignore lint/a11y/noLabelWithoutControl: it is in Control
    <label class="field">
      <span>
        {name} <Hint {...props} />
      </span>
      <Control {...props} control={control} />
      {issue && <span class="wrong">{issue}</span>}
    </label>
  );
  if (!isNullable(schema) || opened(schema).enum?.includes(null)) return inner;
  const turn = () => set(value !== null ? null : isRequired ? exampleOf(opened(schema)) : undefined);
  return (
    <>
      {inner}
      <Check label={`${name} is null`} isSet={value === null} set={turn} />
    </>
  );
}

function Hint({ schema, isRequired }: Pick<FieldProps, "schema" | "isRequired">) {
  return <span class="quiet send-hint">{wordsOf(schema, isRequired)}</span>;
}

type ControlProps = FieldProps & { issue: string | undefined };

function Items({ name, schema, value, set, isRequired, path, told }: FieldProps) {
  const of = itemsOf(schema) ?? {};
  const items = Array.isArray(value) ? value : [];
  const removeAt = (at: number) => set(items.length === 1 && !isRequired ? undefined : items.toSpliced(at, 1));
  return (
    <>
      {items.map((one, at) => (
        <div class="send-item" key={`${at} of ${items.length}`}>
          <Field
            {...{ name: `${name} ${at + 1}`, schema: of, value: one, path: `${path}.${at}`, told, isRequired: true }}
            set={(next) => set(items.with(at, next ?? null))}
          />
          <Button class="plain" label={`Remove ${name} ${at + 1}`} press={() => removeAt(at)}>
            Remove
          </Button>
        </div>
      ))}
      <Button press={() => set([...items, exampleOf(of)])}>Add {items.length === 0 ? "one" : "another"}</Button>
    </>
  );
}

/**
 * Maximum length of a text that is edited in a field of one line. A longer text is edited in a text area, unless its schema has a pattern
 * or a format.
 */
const SHORT = 200;

function Control({ control, schema, value, set, isRequired, issue }: ControlProps & { control: string }) {
  const said = opened(schema);
  const wrong = issue !== undefined || undefined;
  const { pattern, format, maxLength = Number.POSITIVE_INFINITY } = said;
  const [isLong] = useState(() => String(value).includes("\n") || !(pattern || format || maxLength <= SHORT));
  if (control === "choice")
    return (
      <select
        aria-invalid={wrong}
        value={JSON.stringify(value) ?? ""}
        onChange={({ currentTarget: { value: text } }) => set(text === "" ? undefined : JSON.parse(text))}
      >
        {(!isRequired || value === undefined) && <option value="">{isRequired ? "choose" : "leave it out"}</option>}
        {(said.enum ?? [true, false]).map((one) => (
          <option key={JSON.stringify(one)} value={JSON.stringify(one)}>
            {one === true ? "yes" : one === false ? "no" : String(one)}
          </option>
        ))}
      </select>
    );
  const example = said.default ?? said.examples?.[0];
  const common = {
    ...{ "aria-invalid": wrong, autocomplete: "off", spellcheck: false, disabled: value === null },
    placeholder: value === null ? "null" : example === undefined ? undefined : String(example),
  } as const;
  if (control === "number")
    return (
      <input
        {...common}
        type="text"
        inputMode="decimal"
        value={value instanceof Written ? value.text : typeof value === "number" ? String(value) : ""}
        onInput={({ currentTarget: { value: text } }) => set(text.trim() === "" ? undefined : writtenNumber(text))}
      />
    );
  const text = typeof value === "string" ? value : "";
  const change = ({ currentTarget }: { currentTarget: { value: string } }) =>
    set(currentTarget.value === "" && !isRequired ? undefined : currentTarget.value);
  return isLong ? (
    <textarea {...common} class="send-long" rows={1} value={text} onInput={change} />
  ) : (
    <input {...common} type="text" value={text} onInput={change} />
  );
}

function AnyJson({ name, schema, value, set, isRequired, issue }: ControlProps) {
  const label = [name, isRequired ? "" : "optional", "JSON", wordsOf(schema)].filter(Boolean).join(" · ");
  return (
    <>
      <JsonField
        label={label}
        text={value === undefined ? "" : jsonText(value, "  ")}
        change={(text) => set(text.trim() === "" ? undefined : writtenJson(text))}
        mayBeEmpty
      />
      {issue && <p class="wrong">{issue}</p>}
    </>
  );
}

import { objectBinding } from "./bindings.ts";
import { placed } from "./location.ts";

/** What others ask of the keeper's object in between its rounds. */
interface Called {
  /** Sees to the calls that are owed, now instead of in its next round. */
  callBack(): Promise<void>;
}

/** The one keeper, as far as those may know it who are none of its rooms. */
export function keeperObject(env: object): Called {
  const objects = objectBinding(env, "KEEPER");
  return objects.get(objects.idFromName("keeper"), placed(env)) as unknown as Called;
}

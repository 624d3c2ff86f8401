import { objectBinding } from "./bindings.ts";
import { placed } from "./location.ts";

/** The keeper's methods for code outside its own directory. */
interface Called {
  /** Makes the owed callbacks now, instead of in the next round. */
  callBack(): Promise<void>;
}

/** The stub of the one keeper, without a dependency on the keeper's code. */
export function keeperObject(env: object): Called {
  const objects = objectBinding(env, "KEEPER");
  return objects.get(objects.idFromName("keeper"), placed(env)) as unknown as Called;
}

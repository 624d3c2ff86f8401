import { objectBinding } from "./bindings.ts";
import { objectOfCell } from "./cells.ts";
import { placed } from "./location.ts";

export interface UndoneChild {
  readonly tenantId: string;
  readonly parent: string;
  /** The action that undoes the parent. */
  readonly undo: string;
  readonly child: string;
}

/** The keeper's methods that code outside the keeper's directory may call. */
interface Called {
  /** Sends the owed callbacks now, and not only in the keeper's next round. */
  callBack(): Promise<void>;
  /** Cancels or undoes a child for the undo of its parent. Returns "nothing" for an ended child without an effect to undo. */
  undoChild(undone: UndoneChild): Promise<"begun" | "nothing">;
}

/** The stub of the keeper of a cell, without a dependency on the keeper's code. */
export function keeperObject(env: object): Called {
  const objects = objectBinding(env, "KEEPER");
  return objects.get(objects.idFromName(objectOfCell(env, "keeper")), placed(env)) as unknown as Called;
}

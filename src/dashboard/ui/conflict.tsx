/** Two people change the same thing: the one who saves second is told, and decides. */
import { Button } from './controls.tsx'
import { FailureNotice } from './failure.tsx'
import { Notice } from './layout.tsx'
import { Outside } from './text.tsx'

/** Keys whose values are different, compared as JSON. */
export function changedKeys(before: object, now: object): string[] {
  const [one, other] = [new Map(Object.entries(before)), new Map(Object.entries(now))]
  return [...new Set([...one.keys(), ...other.keys()])].filter(
    (key) => JSON.stringify(one.get(key)) !== JSON.stringify(other.get(key)),
  )
}

/** Thrown by a save that looked first and found something else than the form began with. */
export class ChangedMeanwhile extends Error {
  readonly keys: readonly string[]

  constructor(keys: readonly string[]) {
    super(`Somebody changed ${keys.join(', ')} since you opened this form.`)
    this.name = 'ChangedMeanwhile'
    this.keys = keys
  }
}

/** Why nothing was saved. `shown`: as FailureNotice has it. */
export function SaveFailure({
  failure,
  shown,
  onOverwrite,
  onReload,
}: {
  failure: unknown
  shown: readonly string[]
  onOverwrite: () => void
  onReload: () => void
}) {
  if (!(failure instanceof ChangedMeanwhile)) return <FailureNotice failure={failure} shown={shown} />
  return (
    <Notice
      kind="warn"
      actions={
        <>
          <Button onClick={onReload}>Take theirs, drop mine</Button>
          <Button changes onClick={onOverwrite}>
            Save mine over it
          </Button>
        </>
      }
    >
      Somebody else changed this since you opened the form: <Outside text={failure.keys.join(', ')} />.
      Nothing is saved yet.
    </Notice>
  )
}

/**
 * Two people change the same thing: the one who saves second is told, and decides. A save reads first, to name what is different
 * from what the form began with, and sends the ETag of what it read: a change that comes between the two is rejected by the API.
 */
import { ApiFailure } from '../../client/failure.ts'
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

/** Throws ChangedMeanwhile. */
export function requireUnchanged(before: object, now: object): void {
  const theirs = changedKeys(before, now)
  if (theirs.length > 0) throw new ChangedMeanwhile(theirs)
}

/** Thrown by a save that looked first and found something else than the form began with. */
class ChangedMeanwhile extends Error {
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
  const keys = failure instanceof ChangedMeanwhile ? failure.keys : null
  const isStale = failure instanceof ApiFailure && failure.code === 'changed_meanwhile'
  if (keys === null && !isStale) return <FailureNotice failure={failure} shown={shown} />
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
      {keys === null ? (
        'Someone else saved this at the same moment.'
      ) : (
        <>
          Somebody else changed this since you opened the form: <Outside text={keys.join(', ')} />.
        </>
      )}{' '}
      Nothing is saved yet.
    </Notice>
  )
}

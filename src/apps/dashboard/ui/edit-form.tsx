/**
 * A form for a stored resource that other users can change too.
 *
 *   editing ──submit──▶ saving ──2xx──▶ editing the saved state
 *      ▲                  └──412──▶ read again ──this form's part is unchanged──▶ saving, with the new ETag
 *      │                                └──another user changed it──▶ conflict: the stored state, and the draft
 *      └──── "Use the stored values" · "Save mine", with the ETag of the shown conflict
 *
 * A form ignores newer data of the page: a save sends the ETag of the state with which the form started.
 */
import { type FormEvent, useState } from 'react'
import { ChangedMeanwhile, ifUnchanged, type Versioned, type Watched } from '../data/if-unchanged.ts'
import { useChange } from '../data/queries.ts'
import { ChangedList } from './changed-list.tsx'
import { Button } from './controls.tsx'
import { fieldErrors, Revealed } from './failure.tsx'
import { Notice } from './layout.tsx'

export interface SaveRequest<Stored, Draft, Options> {
  /** The state with which the form started. The draft is compared with it. */
  stored: Stored
  draft: Draft
  ifMatch: string | null
  options: Options
}

/** `part`: what this form edits. */
interface EditFormOptions<Stored, Draft, Saved, Options> extends Watched<Stored> {
  /** The state with which the form starts. */
  initial: Versioned<Stored>
  draftOf: (stored: Stored) => Draft
  write: (request: SaveRequest<Stored, Draft, Options>) => Promise<Versioned<Stored> & { reply: Saved }>
  onSaved: (reply: Saved, options: Options) => void
}

/** `Options` of a submit are not part of the form, such as "save although a check failed". */
export function useEditForm<Stored, Draft extends object, Saved, Options = void>({
  initial,
  draftOf,
  part,
  read,
  write,
  onSaved,
}: EditFormOptions<Stored, Draft, Saved, Options>) {
  const [base, setBase] = useState(initial)
  const [draft, setDraft] = useState(() => draftOf(initial.stored))
  const [otherFailure, setOtherFailure] = useState<unknown>(null)
  const save = useChange(async ({ ifMatch, options }: { ifMatch: string | null; options: Options }) => {
    const request = { stored: base.stored, draft, options }
    const seen = { stored: base.stored, etag: ifMatch }
    return ifUnchanged(seen, { part, read }, (ifMatch) => write({ ...request, ifMatch }))
  })
  const fail = (failure: unknown) => {
    save.reset()
    setOtherFailure(failure)
  }
  const begin = (from: Versioned<Stored>) => {
    setBase(from)
    setDraft(draftOf(from.stored))
    fail(null)
  }
  const send = (ifMatch: string | null, options: Options) => {
    setOtherFailure(null)
    // Not a callback of `mutate`: it is not called when the form was unmounted meanwhile, which newer data of the page can
    // do, and `onSaved` may have something to show that is shown only once.
    save.mutateAsync({ ifMatch, options }).then(
      ({ reply, ...saved }) => {
        begin(saved)
        onSaved(reply, options)
      },
      // The failure is shown as `save.error`.
      () => {},
    )
  }
  const submit = (options: Options) => send(base.etag, options)
  const failure = save.error ?? otherFailure
  const conflict = failure instanceof ChangedMeanwhile ? failure : null
  return {
    stored: base.stored,
    /** The state with which the form started, and its ETag. */
    base,
    draft,
    change: (next: Partial<Draft>) => setDraft((before) => ({ ...before, ...next })),
    begin,
    undo: () => setDraft(draftOf(base.stored)),
    submit,
    isSaving: save.isPending,
    errors: fieldErrors(failure),
    /** Shows the failure of another request of the form. Null: none. */
    fail,
    failure,
    /** Null: the failure is no conflict. */
    conflict:
      conflict === null || save.variables === undefined ? null : (
        <Conflict
          conflict={conflict}
          onUseStored={() => begin(conflict.present)}
          onSaveMine={() => send(conflict.present.etag, save.variables.options)}
        />
      ),
  }
}

/** For the `onSubmit` of a form without options. */
export function submitting(submit: () => void) {
  return (event: FormEvent) => {
    event.preventDefault()
    submit()
  }
}

function Conflict({
  conflict,
  onUseStored,
  onSaveMine,
}: {
  conflict: ChangedMeanwhile
  onUseStored: () => void
  onSaveMine: () => void
}) {
  return (
    <Revealed failure={conflict}>
      <Notice
        kind="warn"
        actions={
          <>
            <Button onClick={onUseStored}>Use the stored values</Button>
            <Button changes onClick={onSaveMine}>
              Save mine
            </Button>
          </>
        }
      >
        Another user changed this after you opened the form. Nothing was saved. Stored now:
        <ChangedList changed={conflict.changed} />
      </Notice>
    </Revealed>
  )
}

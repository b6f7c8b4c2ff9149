/** Dialogs that ask for confirmation before a change. */
import { type ReactNode, useState } from 'react'
import { ChangedMeanwhile, ifUnchanged, type Versioned, type Watched } from '../data/if-unchanged.ts'
import { ChangedList } from './changed-list.tsx'
import { Button, formStyles } from './controls.tsx'
import { Dialog } from './dialog.tsx'
import { FailureNotice, Revealed } from './failure.tsx'
import { CliTwin, Notice } from './layout.tsx'

interface ConfirmProps {
  title: ReactNode
  /** Describes the effect, with numbers. */
  children: ReactNode
  /** The button's label: a verb for the action. */
  confirmLabel: string
  isDanger?: boolean
  command: string
  run: () => Promise<unknown>
  onClose: () => void
}

/** Asks for confirmation. Stays open and shows the error of the API if the action fails. */
export function Confirm({
  title,
  children,
  confirmLabel,
  isDanger = true,
  command,
  run,
  onClose,
}: ConfirmProps) {
  const [isRunning, setRunning] = useState(false)
  const [failure, setFailure] = useState<unknown>(null)
  const act = async () => {
    setRunning(true)
    setFailure(null)
    try {
      await run()
      onClose()
    } catch (error) {
      setFailure(error)
      setRunning(false)
    }
  }
  return (
    <Dialog title={title} open onClose={onClose}>
      <div>{children}</div>
      {failure instanceof ChangedMeanwhile ? (
        <Conflict conflict={failure} />
      ) : (
        <FailureNotice failure={failure} />
      )}
      <div className={formStyles.actions}>
        <Button look={isDanger ? 'danger' : 'primary'} changes isBusy={isRunning} onClick={() => void act()}>
          {isRunning ? 'Working …' : confirmLabel}
        </Button>
        {/* Enter must not trigger an action that cannot be undone. */}
        <Button onClick={onClose} data-first-focus={isDanger || undefined}>
          Cancel
        </Button>
      </div>
      <CliTwin command={command} />
    </Dialog>
  )
}

interface ConfirmDeleteProps<Stored> extends Omit<ConfirmProps, 'isDanger' | 'run'>, Watched<Stored> {
  /** As the page shows it when the dialog opens. */
  seen: Versioned<Stored>
  /** Called again, with the ETag of the present state, after the user has seen a conflict. */
  remove: (ifMatch: string | null) => Promise<unknown>
}

/**
 * Asks whether to delete a resource that other users can change too. If it has changed since the dialog was opened,
 * nothing is deleted: the dialog shows the differences, and the same button deletes the present state.
 */
export function ConfirmDelete<Stored>({ seen, part, read, remove, ...dialog }: ConfirmDeleteProps<Stored>) {
  const [known, setKnown] = useState(seen)
  const run = async () => {
    try {
      await ifUnchanged(known, { part, read }, remove)
    } catch (error) {
      if (error instanceof ChangedMeanwhile) setKnown(error.present)
      throw error
    }
  }
  return <Confirm {...dialog} run={run} />
}

function Conflict({ conflict }: { conflict: ChangedMeanwhile }) {
  return (
    <Revealed failure={conflict}>
      <Notice kind="bad">
        Another user changed this in the meantime. Nothing was deleted. Stored now:
        <ChangedList changed={conflict.changed} />
      </Notice>
    </Revealed>
  )
}

/** Asks before a deletion: what is deleted, and where copies remain. */
import type { PrivacyJob } from '../../../../contract/privacy.ts'
import { counted } from '../../../../platform/quantities.ts'
import { countWords, privacyCommand } from '../../../client/privacy.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Outside } from '../../ui/text.tsx'
import type { KeyDraft } from './draft.ts'
import { Remaining } from './job-result.tsx'

interface DeleteDialogProps {
  keys: readonly KeyDraft[]
  /** The search for these keys. */
  found: PrivacyJob
  /** Null: all pipes. */
  pipeName: string | null
  run: () => Promise<unknown>
  onClose: () => void
}

export function DeleteDialog({ keys, found, pipeName, run, onClose }: DeleteDialogProps) {
  const { records, parked } = found.found
  const isEmpty = records + parked === 0
  return (
    <Confirm
      title={isEmpty ? 'Delete what quotes these values?' : `Delete ${countWords(found.found)} permanently?`}
      confirmLabel="Delete permanently"
      command={privacyCommand('delete', pipeName)}
      run={run}
      onClose={onClose}
    >
      <p>
        {pipeName === null ? 'In all pipes: ' : <Outside text={`In ${pipeName}: `} />}
        <strong>
          <Outside text={keys.map(({ path, value }) => `${path.trim()}=${value}`).join(', ')} />
        </strong>
      </p>
      <p>
        {isEmpty
          ? 'No record was found. Errors of destinations that quote the values are deleted, and records that have arrived since the search.'
          : `The search found them in ${counted(found.pipes.length, 'pipe')}. Records that have arrived since then are deleted too. Pending ones are not delivered.`}{' '}
        Errors that quote the values are removed, and so are copies of metadata.db from before an upgrade.
        This cannot be undone.
      </p>
      <Remaining remaining={found.remaining} />
    </Confirm>
  )
}

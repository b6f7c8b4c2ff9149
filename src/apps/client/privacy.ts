/** Searches and deletions of personal data, in the words that the CLI and the dashboard share. Pure. */
import type { PrivacyCounts, PrivacyJob, PrivacyKind } from '../../contract/privacy.ts'
import { count, counted } from '../../platform/quantities.ts'
import { command } from './cli-twin.ts'

const stageWords: Readonly<Record<NonNullable<PrivacyJob['stage']>, string>> = {
  search: 'Searching',
  buffer: 'Deleting from the buffer',
  lanes: 'Deleting from lanes',
  parked: 'Deleting parked records',
  metadata: 'Deleting texts that quote records',
  files: 'Rewriting metadata.db',
}

type Progress = Pick<PrivacyJob, 'stage' | 'state' | 'files_left' | 'found' | 'deleted'>

export function progressWords({ stage, state, files_left, found, deleted }: Progress): string {
  if (stage === null) return state === 'waiting' ? 'Waiting for other jobs' : state
  const files = files_left === null ? '' : `, ${counted(files_left, 'file')} left`
  const counts = stage === 'search' ? `${countWords(found)} found` : `${countWords(deleted)} deleted`
  return `${stageWords[stage]}${files}: ${counts}`
}

export function countWords({ records, parked }: PrivacyCounts): string {
  return parked === 0
    ? counted(records, 'record')
    : `${counted(records, 'record')} and ${counted(parked, 'parked record')}`
}

export function deletedWords({
  deleted,
  upgrade_copies_removed: copies,
}: Pick<PrivacyJob, 'deleted' | 'upgrade_copies_removed'>): string {
  const removed =
    copies === 0 ? '' : ` Removed ${count(copies)} copies of metadata.db from before an upgrade.`
  return `Deleted ${countWords(deleted)}.${removed}`
}

/** The file in commands. It has a line KEY=VALUE for each key, so that no value is on a command line. */
export const keysFile = 'keys.txt'

/** `pipeName` null: all pipes. */
export function privacyCommand(kind: PrivacyKind, pipeName: string | null): string {
  return command(
    ...['privacy', kind, '--keys-file', keysFile],
    ...(pipeName === null ? [] : ['--pipe', pipeName]),
    kind === 'delete' && '--yes',
  )
}

/** Where copies of records remain that pipectl does not delete. */
import { wordsOf } from '../contract/destination-words.ts'
import type { PrivacyJob } from '../contract/privacy.ts'
import type { ErasablePipe } from '../metadata/privacy-erasure.ts'

type Remaining = PrivacyJob['remaining'][number]

export function remainingCopies(
  pipes: readonly ErasablePipe[],
  { hasReplica }: { hasReplica: boolean },
): Remaining[] {
  const destinations = pipes.flatMap((pipe) =>
    pipe.destinations.map((one): Remaining => {
      const name = `${pipe.name}/${one.name}`
      if (wordsOf(one.type).isTableFile)
        return {
          kind: 'table_file',
          name,
          note: 'Delete the rows in the SQLite file below tables/ in the data directory, then run VACUUM on it.',
        }
      if (wordsOf(one.type).isPulled)
        return { kind: 'destination', name, note: 'Delete the records where its consumers have stored them.' }
      return { kind: 'destination', name, note: 'Delete the records there.' }
    }),
  )
  const backups: Remaining = {
    kind: 'backup',
    name: 'backups',
    note: 'Backups of the data directory that were made before keep the records. Delete them, or let them expire; after a restore, delete the records again.',
  }
  const replica: Remaining = {
    kind: 'replica',
    name: 'replica',
    note: 'The records leave the bucket with the second snapshot from now, so within about two hours while the daemon runs. Versions that the bucket keeps of removed objects stay: let them expire.',
  }
  const log: Remaining = {
    kind: 'log',
    name: 'log of the daemon',
    note: 'It has no records, but errors of destinations, which can quote a value. Let it expire.',
  }
  return [...destinations, backups, ...(hasReplica ? [replica] : []), log]
}

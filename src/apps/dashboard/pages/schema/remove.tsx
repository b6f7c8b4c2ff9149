/** Removes the schema of a pipe. */
import { useState } from 'react'
import type { Pipe } from '../../../../contract/pipe.ts'
import { command } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import type { Versioned } from '../../data/if-unchanged.ts'
import { useChange } from '../../data/queries.ts'
import { ConfirmDelete } from '../../ui/confirm.tsx'
import { Button } from '../../ui/controls.tsx'
import { Section } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { readPipe } from '../webhooks/source-change.ts'
import { schemaPart } from './draft.ts'

interface Props {
  seen: Versioned<Pipe>
  onRemoved: (now: Versioned<Pipe>) => void
}

export function RemoveSchema({ seen, onRemoved }: Props) {
  const [isAsking, setAsking] = useState(false)
  const { pipe_id, pipe_name } = seen.stored
  const remove = useChange((ifMatch: string | null) =>
    api.call('updatePipe', { path: { pipe_id }, body: { pipe_schema: null }, ifMatch }),
  )
  const twin = command('pipes', 'schema', 'remove', pipe_name, '--yes')
  return (
    <Section title="Remove the schema">
      <p>The pipe then accepts every JSON object. The versions of the schema are kept.</p>
      <div>
        <Button look="danger" changes onClick={() => setAsking(true)}>
          Remove schema …
        </Button>
      </div>
      {isAsking ? (
        <ConfirmDelete
          title="Remove the schema?"
          confirmLabel="Remove schema"
          command={twin}
          seen={seen}
          part={schemaPart}
          read={() => readPipe(pipe_id)}
          remove={async (ifMatch) => {
            const { body, etag } = await remove.mutateAsync(ifMatch)
            say(`Pipe ${pipe_name} has no schema.`, twin)
            onRemoved({ stored: body.pipe, etag })
          }}
          onClose={() => setAsking(false)}
        >
          Records are no longer checked.
        </ConfirmDelete>
      ) : null}
    </Section>
  )
}

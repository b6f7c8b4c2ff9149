/** Ends the webhooks into a pipe. */
import { useState } from 'react'
import type { Pipe } from '../../../../contract/pipe.ts'
import { sourceCommand } from '../../../client/source-twin.ts'
import { api } from '../../data/api.ts'
import type { Versioned } from '../../data/if-unchanged.ts'
import { useChange } from '../../data/queries.ts'
import { ConfirmDelete } from '../../ui/confirm.tsx'
import { Button } from '../../ui/controls.tsx'
import { Section } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { readPipe, sourcePart } from './source-change.ts'

export function RemoveSource({ seen }: { seen: Versioned<Pipe> }) {
  const [isAsking, setAsking] = useState(false)
  const path = { pipe_id: seen.stored.pipe_id }
  const remove = useChange((ifMatch: string | null) =>
    api.call('updatePipe', { path, body: { pipe_source: null }, ifMatch }),
  )
  const twin = sourceCommand(seen.stored.pipe_name, { pipe_source: null })
  return (
    <Section title="Stop accepting webhooks">
      <p>The address then responds with 404, and the secrets are deleted. Records are not affected.</p>
      <div>
        <Button look="danger" changes onClick={() => setAsking(true)}>
          Stop webhooks …
        </Button>
      </div>
      {isAsking ? (
        <ConfirmDelete
          title="Stop accepting webhooks?"
          confirmLabel="Stop webhooks"
          command={twin}
          seen={seen}
          part={sourcePart}
          read={() => readPipe(path.pipe_id)}
          remove={async (ifMatch) => {
            await remove.mutateAsync(ifMatch)
            say('This pipe no longer accepts webhooks.', twin)
          }}
          onClose={() => setAsking(false)}
        >
          The provider gets 404 for its next events.
        </ConfirmDelete>
      ) : null}
    </Section>
  )
}

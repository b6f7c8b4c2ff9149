/** The secrets of a source. To rotate one without a gap, a second one is added and then the first one removed. */
import { type ReactNode, useState } from 'react'
import type { Pipe } from '../../../../contract/pipe.ts'
import type { PipeSource, PipeSourceGiven, SourceSecret } from '../../../../contract/pipe-source.ts'
import { maxSecrets, sourceWords } from '../../../../contract/source-words.ts'
import { addSecretCommand, removeSecretCommand } from '../../../client/source-twin.ts'
import type { Versioned } from '../../data/if-unchanged.ts'
import { useChange } from '../../data/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button, formStyles } from '../../ui/controls.tsx'
import { FailureNotice, fieldErrors } from '../../ui/failure.tsx'
import { TextField } from '../../ui/fields.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { CliTwin, Section, Soft, Table } from '../../ui/layout.tsx'
import { Ago, exactTime } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { changeSource } from './source-change.ts'

interface Props {
  seen: Versioned<Pipe>
  source: PipeSource
  /** A token was made. */
  onToken: (token: string) => void
}

/** Sends the complete list of secrets. */
function useSecretsChange({ seen, source }: Props) {
  type Given = NonNullable<PipeSourceGiven['secrets']>
  return useChange(async (change: { kept: readonly SourceSecret[]; added?: Given[number] }) => {
    const kept: Given = change.kept.map(({ secret_id }) => ({ secret_id }))
    const secrets = change.added === undefined ? kept : [...kept, change.added]
    const reply = await changeSource(seen, { pipe_source: { type: source.type, secrets } })
    return reply.body.pipe_source_token ?? null
  })
}

export function Secrets(props: Props) {
  return sourceWords(props.source.type).secrets === 'generated' ? (
    <Addresses {...props} />
  ) : (
    <Entered {...props} />
  )
}

function Entered(props: Props) {
  const { source } = props
  const [secret, setSecret] = useState('')
  const add = useSecretsChange(props)
  const errors = Object.entries(fieldErrors(add.error)).filter(([path]) => path.startsWith('pipe_source'))
  const isFull = source.secrets.length >= maxSecrets
  const pipeName = props.seen.stored.pipe_name
  return (
    <Section title="Secrets">
      <Soft>
        To change the secret: add the new one, change it at the provider, and remove the old one. Until then
        webhooks with either are accepted.
      </Soft>
      <SecretTable {...props} noun="secret">
        Webhooks that are signed with it are then rejected.
      </SecretTable>
      <form
        className={formStyles.form}
        onSubmit={(event) => {
          event.preventDefault()
          add.mutate(
            { kept: source.secrets, added: secret },
            {
              onSuccess: () => {
                setSecret('')
                say('The secret was added.', addSecretCommand(pipeName))
              },
            },
          )
        }}
      >
        <TextField
          label="Another secret"
          type="password"
          autoComplete="new-password"
          mono
          hint={
            isFull
              ? `A source has at most ${maxSecrets} secrets: remove one first.`
              : sourceWords(source.type).secretHint
          }
          value={secret}
          onValue={setSecret}
          error={errors[0]?.[1]}
        />
        <FormActions failure={add.error} shown={errors.map(([path]) => path)}>
          <Button type="submit" changes disabled={secret === '' || isFull} isBusy={add.isPending}>
            Add secret
          </Button>
        </FormActions>
        {secret === '' ? null : <CliTwin command={addSecretCommand(pipeName)} />}
      </form>
    </Section>
  )
}

/** For a source with a secret URL, whose tokens are made and never entered. */
function Addresses(props: Props) {
  const { source, onToken } = props
  const add = useSecretsChange(props)
  return (
    <Section title="Addresses">
      <Soft>
        To change the address: make a new one, enter it at the provider, and remove the old one. Until then
        both work.
      </Soft>
      <SecretTable {...props} noun="address">
        Requests to it then get 404.
      </SecretTable>
      <div className={formStyles.actions}>
        <Button
          changes
          disabled={source.secrets.length >= maxSecrets}
          isBusy={add.isPending}
          onClick={() =>
            add.mutate(
              { kept: source.secrets, added: { generate: true } },
              { onSuccess: (token) => token !== null && onToken(token) },
            )
          }
        >
          Make a new address
        </Button>
      </div>
      <FailureNotice failure={add.error} />
      <CliTwin command={addSecretCommand(props.seen.stored.pipe_name)} />
    </Section>
  )
}

/** `children`: the effect of a removal. */
function SecretTable(props: Props & { noun: string; children: ReactNode }) {
  const { source, noun, children } = props
  const [removing, setRemoving] = useState<SourceSecret | null>(null)
  const remove = useSecretsChange(props)
  return (
    <>
      <Table
        caption={`Stored, each ${noun}`}
        rows={source.secrets}
        keyOf={({ secret_id: id }) => id}
        columns={[
          { label: 'Set', cell: ({ set_ts: at }) => <Ago at={at} />, isShort: true },
          { label: 'Time', cell: ({ set_ts: at }) => exactTime(at) },
          {
            label: '',
            cell: (one) =>
              source.secrets.length === 1 ? null : (
                <Button
                  changes
                  aria-label={`Remove the ${noun} of ${exactTime(one.set_ts)}`}
                  onClick={() => setRemoving(one)}
                >
                  Remove …
                </Button>
              ),
          },
        ]}
      />
      {removing === null ? null : (
        <Confirm
          title={`Remove the ${noun} of ${exactTime(removing.set_ts)}?`}
          confirmLabel={`Remove the ${noun}`}
          command={removeSecretCommand(props.seen.stored.pipe_name, removing.secret_id)}
          run={async () => {
            const { secret_id: id } = removing
            await remove.mutateAsync({ kept: source.secrets.filter((one) => one.secret_id !== id) })
            say(`The ${noun} was removed.`)
          }}
          onClose={() => setRemoving(null)}
        >
          {children}
        </Confirm>
      )}
    </>
  )
}

/** The audit log: who changed what, and from where. Only admins see it. */
import { useState } from 'react'
import type { AuditEntry } from '../../../../contract/audit.ts'
import { changeOf, resourceName } from '../../../client/audit-name.ts'
import { command } from '../../../client/cli-twin.ts'
import { printableJson } from '../../../client/printable.ts'
import { useParam, useSetParams } from '../../data/address.ts'
import { useOverview } from '../../data/overview.ts'
import { useAudit } from '../../data/queries.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Button } from '../../ui/controls.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Loading } from '../../ui/failure.tsx'
import { CliTwin, Code, Empty, Notice, Page, Section, Soft, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'

export function AuditPage() {
  const mayChange = useMayChange()
  return (
    <Page title="Audit" name="Audit log">
      <Soft>Every change and every sign-in of the last 400 days. Secrets are never recorded.</Soft>
      {mayChange ? <Entries /> : <Notice>Only admins can see the audit log.</Notice>}
    </Page>
  )
}

function Entries() {
  const after = Number.parseInt(useParam('after'), 10) || null
  const setParams = useSetParams()
  const [shown, setShown] = useState<AuditEntry | null>(null)
  const { data, error } = useAudit(after)
  const { data: overview } = useOverview()
  if (data === undefined) return <Loading error={error} />
  const { audit, next } = data
  return (
    <Section title="Newest first">
      {audit.length === 0 ? (
        <Empty title="No changes yet">
          <p>Changes appear here.</p>
        </Empty>
      ) : (
        <Table
          caption="Changes"
          rows={audit}
          keyOf={(entry) => String(entry.audit_id)}
          columns={[
            { label: 'When', cell: (entry) => <Ago at={entry.audit_ts} />, isShort: true },
            { label: 'Who', cell: (entry) => <Outside text={whoOf(entry)} /> },
            { label: 'From', cell: (entry) => entry.address ?? 'this server' },
            {
              label: 'Operation',
              cell: ({ operation }) => <span title={operation}>{operationWords(operation)}</span>,
              isShort: true,
            },
            {
              label: 'Resource',
              cell: (entry) =>
                entry.resource_id === null ? '–' : <Outside text={resourceName(entry, overview ?? null)} />,
            },
            { label: 'Changed', cell: (entry) => <Outside text={changeOf(entry)} /> },
            {
              label: '',
              cell: (entry) => (
                <Button aria-label={`Show change ${entry.audit_id}`} onClick={() => setShown(entry)}>
                  Show
                </Button>
              ),
            },
          ]}
        />
      )}
      <div>
        {after === null ? null : (
          <Button onClick={() => setParams({ after: null }, true)}>Newest changes</Button>
        )}{' '}
        {next === null ? null : (
          <Button onClick={() => setParams({ after: String(next) }, true)}>Older changes</Button>
        )}
      </div>
      <CliTwin command={command('audit', after !== null && '--after', after !== null && String(after))} />
      {shown === null ? null : <Entry entry={shown} onClose={() => setShown(null)} />}
    </Section>
  )
}

function Entry({ entry, onClose }: { entry: AuditEntry; onClose: () => void }) {
  return (
    <Dialog title={`Change ${entry.audit_id}`} open onClose={onClose}>
      <Code label="Before" text={stateText(entry.before)} />
      <Code label="After" text={stateText(entry.after)} />
      <Code label="Resource" text={entry.resource_id ?? 'the workspace'} />
      <div>
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}

/** `createDestination`, as the API names it: "create destination". */
function operationWords(operation: string): string {
  return operation.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
}

function stateText(state: AuditEntry['before']): string {
  return state === null ? 'none' : printableJson(JSON.stringify(state, null, 2))
}

function whoOf({ actor }: AuditEntry): string {
  const name = actor.name ?? actor.id
  if (actor.kind === 'local') return name === null ? 'local command' : `local command by ${name}`
  return `${actor.kind} ${name ?? '(unknown)'}`
}

/** The API as this daemon describes it: every operation with what it takes and returns. */
import { useQuery } from '@tanstack/react-query'
import { useDeferredValue, useState } from 'react'
import { openapiAddress } from '../../data/queries.ts'
import { Loading } from '../../ui/failure.tsx'
import { TextField } from '../../ui/fields.tsx'
import { Code, Empty, Page, Section, Soft, Table } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { type ApiDocument, type ApiOperation, readDocument, typeWords } from './document.ts'
import styles from './reference.module.css'
import { SchemaView } from './schema.tsx'

export function ReferencePage() {
  const { data, error } = useQuery({
    queryKey: ['openapi'],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      const response = await fetch(openapiAddress, { signal })
      if (!response.ok) throw new Error(`The daemon did not return its document (HTTP ${response.status}).`)
      return readDocument(await response.text())
    },
  })
  return (
    <Page
      title="API reference"
      name="API reference"
      actions={<a href={openapiAddress}>OpenAPI document (YAML)</a>}
    >
      {data === undefined ? <Loading error={error} lines={12} /> : <Reference document={data} />}
    </Page>
  )
}

function Reference({ document }: { document: ApiDocument }) {
  const [filter, setFilter] = useState('')
  const wanted = useDeferredValue(filter).trim().toLowerCase()
  const found = document.operations.filter((one) =>
    `${one.id} ${one.method} ${one.path} ${one.summary}`.toLowerCase().includes(wanted),
  )
  const tags = document.tags.filter((tag) => found.some((one) => one.tag === tag.name))
  return (
    <>
      <p>
        <Outside text={document.description} /> Version {document.version}.
      </p>
      <TextField
        label="Search"
        type="search"
        placeholder="e.g. rewind, or POST"
        value={filter}
        onValue={setFilter}
      />
      {tags.length === 0 ? (
        <Empty title="No operation matches">
          <p>Search for part of a path, a method or a word of the summary.</p>
        </Empty>
      ) : null}
      {tags.map((tag) => (
        <Section key={tag.name} title={tag.name}>
          <Soft>{tag.description}</Soft>
          <div>
            {found
              .filter((one) => one.tag === tag.name)
              .map((one) => (
                <Operation key={one.id} operation={one} document={document} />
              ))}
          </div>
        </Section>
      ))}
    </>
  )
}

function Operation({ operation, document }: { operation: ApiOperation; document: ApiDocument }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details
      className={styles.operation}
      id={operation.id}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <span className={styles.method}>{operation.method}</span>
        <code>{operation.path}</code>
        <Soft>{operation.summary}</Soft>
      </summary>
      {isOpen ? <Details operation={operation} document={document} /> : null}
    </details>
  )
}

function Details({ operation, document }: { operation: ApiOperation; document: ApiDocument }) {
  const { parameters, request, responses } = operation
  return (
    <div className={styles.body}>
      {operation.description === '' ? null : <p>{operation.description}</p>}
      <Code label="curl" text={curl(operation)} />
      {parameters.length === 0 ? null : (
        <Table
          caption={`Parameters of ${operation.id}`}
          rows={parameters}
          keyOf={(one) => `${one.in} ${one.name}`}
          columns={[
            { label: 'Parameter', cell: (one) => <code>{one.name}</code> },
            { label: 'In', cell: (one) => `${one.in}${one.required === true ? ', required' : ''}` },
            { label: 'Type', cell: (one) => (one.schema === undefined ? '' : typeWords(one.schema)) },
            { label: 'Description', cell: (one) => one.description ?? '' },
          ]}
        />
      )}
      {request === null ? null : (
        <div>
          <h3>Body</h3>
          <SchemaView schema={request} resolve={document.resolve} />
        </div>
      )}
      {responses.map(({ status, description, schema }) => (
        <div key={status}>
          <h3>
            {status} <Soft>{description}</Soft>
          </h3>
          {schema === null || Number(status) >= 400 ? null : (
            <SchemaView schema={schema} resolve={document.resolve} />
          )}
        </div>
      ))}
    </div>
  )
}

function curl({ method, path, request, isOpen }: ApiOperation): string {
  return [
    `curl${method === 'GET' ? '' : ` -X ${method}`} '${location.origin}${path}'`,
    ...(isOpen ? [] : [`  -H 'Authorization: Bearer YOUR_API_KEY'`]),
    ...(request === null ? [] : [`  -H 'Content-Type: application/json'`, `  -d '{}'`]),
  ].join(' \\\n')
}

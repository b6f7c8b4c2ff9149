// Node.js 18 or newer. Stored once the status is 202.
const response = await fetch(process.env.PIPECTL_INGEST_URL, {
  method: 'POST',
  headers: {
    Authorization: `Bearer ${process.env.PIPECTL_API_KEY}`,
    'Content-Type': 'application/json',
  },
  body: JSON.stringify({ event: 'signup', user_id: 42 }),
  signal: AbortSignal.timeout(10_000),
})
if (response.status !== 202) throw new Error(`${response.status} ${await response.text()}`)

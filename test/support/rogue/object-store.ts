/** An honest S3 server, as far as a driver goes: it takes everything. And its ways to misbehave beside those of HTTP. */
import { type HttpRequest, head, httpSession, response } from './http.ts'
import { endless, type Fault, type HonestSession } from './rogue-server.ts'

const xml = (status: string, body: string, headers: readonly string[] = []) =>
  response(status, ['content-type: application/xml', ...headers], body)
const begun = '<InitiateMultipartUploadResult><UploadId>upload-1</UploadId></InitiateMultipartUploadResult>'
const completed = '<CompleteMultipartUploadResult><ETag>"etag"</ETag></CompleteMultipartUploadResult>'

/** The steps, by number; requests of one attempt come on several connections. */
export const steps = { put: 0, begin: 1, part: 2, complete: 3, remove: 4, head: 5 }
const answers = [
  response('200 OK', ['etag: "etag"']),
  xml('200 OK', begun),
  response('200 OK', ['etag: "part"']),
  xml('200 OK', completed),
  head('204 No Content'),
  head('200 OK', ['content-length: 0', 'x-amz-bucket-region: us-east-1']),
]

export function honestStore(): HonestSession {
  const answerTo = (request: HttpRequest) => answers[stepOf(request)] ?? answers[0]!
  return { ...httpSession(answerTo), stepOf: (honest) => answers.indexOf(honest) }
}

function stepOf({ method, path }: HttpRequest): number {
  if (method === 'HEAD') return steps.head
  if (method === 'DELETE') return steps.remove
  if (path.includes('partNumber=')) return steps.part
  if (path.includes('uploadId=')) return steps.complete
  return path.includes('uploads') ? steps.begin : steps.put
}

const instead =
  (bytes: Buffer): Fault =>
  (socket) =>
    void socket.write(bytes)
const error = (status: string, code: string, rest = '', message = 'says the rogue') =>
  instead(
    xml(
      status,
      `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message>${rest}</Error>`,
    ),
  )
const said = (body: string, status = '400 No') => instead(xml(status, body))
const pouringXml =
  (first: string, again: string): Fault =>
  (socket) =>
    endless(
      socket,
      Buffer.from(`${head('400 No', ['content-type: application/xml', 'connection: close'])}${first}`),
      Buffer.from(again.repeat(Math.ceil(65_536 / again.length))),
    )

const laughs = ['<!ENTITY a0 "ha">']
  .concat(Array.from({ length: 30 }, (_, at) => `<!ENTITY a${at + 1} "&a${at};&a${at};&a${at};">`))
  .join('')

export function storeFaults({
  elsewhere,
  secrets,
}: {
  elsewhere: string
  secrets: readonly string[]
}): Record<string, Fault> {
  const redirects = ['301', '302', '303', '307', '308'].map((status): [string, Fault] => [
    `S3 redirects by ${status}`,
    instead(
      xml(
        `${status} Moved`,
        `<Error><Code>PermanentRedirect</Code><Endpoint>${elsewhere}</Endpoint><Bucket>b</Bucket></Error>`,
        [`location: ${elsewhere}`, 'x-amz-bucket-region: eu-north-1'],
      ),
    ),
  ])
  const codes = ['SlowDown', 'InternalError', 'NoSuchBucket', 'NoSuchUpload', 'InvalidPart', 'EntityTooSmall']
    .concat(['SignatureDoesNotMatch', 'ExpiredToken', 'AccessDenied', 'BadDigest', 'InvalidPartOrder'])
    .flatMap((code): [string, Fault][] => [
      [`${code} with 400`, error('400 No', code)],
      [`${code} with 200`, error('200 OK', code)],
    ])
  const ends = ['</Error>\n', '</Error> \r\n\t', '</Error><!-- -->', '</ Error>', '</error>']
  return {
    ...Object.fromEntries(redirects),
    ...Object.fromEntries(codes),
    ...Object.fromEntries(
      ends.map((end): [string, Fault] => [
        `a failure with 200 that ends in ${JSON.stringify(end)}`,
        said(`<Error><Code>InternalError</Code><Message>no</Message>${end}`, '200 OK'),
      ]),
    ),
    'another region': error('400 No', 'AuthorizationHeaderMalformed', '<Region>mars-1</Region>'),
    'a region of control characters': error(
      '400 No',
      'AuthorizationHeaderMalformed',
      '<Region>&#x1b;[31m&#x202e;</Region>',
    ),
    'a region of 10 KB': error(
      '400 No',
      'AuthorizationHeaderMalformed',
      `<Region>${'x'.repeat(10_000)}</Region>`,
    ),
    'a clock that is off': instead(
      xml('403 No', '<Error><Code>RequestTimeTooSkewed</Code></Error>', [
        'date: Thu, 01 Jan 1998 00:00:00 GMT',
      ]),
    ),
    'a clock at the end of time': instead(
      xml('403 No', '<Error><Code>RequestTimeTooSkewed</Code></Error>', [
        'date: Fri, 12 Sep 275760 23:59:59 GMT',
      ]),
    ),
    'a clock at the end of time in XML': error(
      '403 No',
      'RequestTimeTooSkewed',
      '<ServerTime>+275760-09-12T23:59:59Z</ServerTime>',
    ),
    'a clock before the beginning of time': error(
      '403 No',
      'RequestTimeTooSkewed',
      '<ServerTime>-271821-04-20T00:00:00Z</ServerTime>',
    ),
    'a clock that is none': error('403 No', 'RequestTimeTooSkewed', '<ServerTime>noon</ServerTime>'),
    'stored at the end of time': instead(
      response('200 OK', ['etag: "x"', 'date: Fri, 12 Sep 275760 23:59:59 GMT']),
    ),
    'a pause of 1e400 s in S3': instead(xml('503 Later', '<Error/>', [`retry-after: ${'9'.repeat(400)}`])),
    'no XML': said('{"error":"no"}'),
    'XML that is cut': said('<Error><Code>Slow'),
    'XML without a root': said('<?xml version="1.0"?>'),
    'XML of another root': said('<Nonsense><Code>x</Code></Nonsense>'),
    'XML of two roots': said('<Error/><Error/>'),
    'XML that closes another tag': said('<Error><Code>x</Message></Error>'),
    'XML without a code': said('<Error><Message>no</Message></Error>'),
    'XML with two codes': error('400 No', 'One', '<Code>Two</Code><Message>b</Message>'),
    'XML in UTF-16': instead(xml('400 No', Buffer.from('<Error/>', 'utf16le').toString('latin1'))),
    'a code of XML': error('400 No', '<a><b/></a>', '', '<c d="e"/>'),
    'a code of 10 KB': error('400 No', 'x'.repeat(10_000)),
    'a code of control characters': error('400 No', '&#x1b;[31m&#0;&#x2028;'),
    'a message of control and bidi characters': error(
      '400 No',
      'X',
      '',
      '&#x1b;]0;x&#7;&#x202e;\u2066\u200f',
    ),
    'a message of 10 KB': error('400 No', 'X', '', 'ä'.repeat(10_000)),
    'a message of 15 MB': error('400 No', 'X', '', 'x'.repeat(15_000_000)),
    'names of the language': error(
      '400 No',
      'X',
      '<__proto__><a>1</a></__proto__><constructor/><toString/><name/><stack/><cause><a/></cause>',
    ),
    'attributes of the language': said('<Error __proto__="x" constructor="y"><Code>X</Code></Error>'),
    'a billion laughs': said(`<!DOCTYPE e [${laughs}]><Error><Code>X</Code><Message>&a30;</Message></Error>`),
    'an entity of a file': said(
      '<!DOCTYPE e [<!ENTITY f SYSTEM "file:///etc/passwd">]><Error><Message>&f;</Message></Error>',
    ),
    'an entity of elsewhere': said(`<!DOCTYPE e SYSTEM "${elsewhere}"><Error><Message>&f;</Message></Error>`),
    'XML a million deep': said('<a>'.repeat(1_000_000)),
    'XML twenty thousand deep': said('<a>'.repeat(20_000)),
    'XML twenty thousand deep, and closed': said('<a>'.repeat(9000) + '</a>'.repeat(9000)),
    'a million types of document': said('<!DOCTYPE>'.repeat(1_000_000)),
    'six thousand types of document': said('<!DOCTYPE>'.repeat(6000)),
    'ten thousand comments': said('<!---->'.repeat(9000)),
    'a million attributes': said(`<Error ${'a="b" '.repeat(1_000_000)}/>`),
    'ten thousand children': said(`<Error>${'<a/>'.repeat(15_000)}</Error>`),
    'XML without end': pouringXml('<Error>', '<a>b</a>'),
    'tags without end': pouringXml('', '<a>'),
    'text without end': pouringXml('<Error><Message>', 'x'),
    'a name without end': pouringXml('<', 'x'),
    'types of document without end': pouringXml('', '<!DOCTYPE>'),
    'a comment without end': pouringXml('<!--', 'x'),
    'spaces without end': pouringXml('', ' '),
    'no ETag': instead(response('200 OK')),
    'an empty ETag': instead(response('200 OK', ['etag:'])),
    'an ETag of 10 KB': instead(response('200 OK', [`etag: ${'x'.repeat(10_000)}`])),
    'an ETag of XML': instead(response('200 OK', ['etag: </ETag></Part><Part>'])),
    'another ETag': instead(response('200 OK', ['etag: "00000000000000000000000000000000"'])),
    'no upload id': said('<InitiateMultipartUploadResult/>', '200 OK'),
    'an empty upload id': said(
      '<InitiateMultipartUploadResult><UploadId/></InitiateMultipartUploadResult>',
      '200 OK',
    ),
    'an upload id of paths': said(
      '<InitiateMultipartUploadResult><UploadId>../../?a=b&amp;c#d\r\nX: y</UploadId></InitiateMultipartUploadResult>',
      '200 OK',
    ),
    'an upload id of 60 KB': said(
      `<InitiateMultipartUploadResult><UploadId>${'u'.repeat(60_000)}</UploadId></InitiateMultipartUploadResult>`,
      '200 OK',
    ),
    'two upload ids': said(
      '<InitiateMultipartUploadResult><UploadId>a</UploadId><UploadId>b</UploadId></InitiateMultipartUploadResult>',
      '200 OK',
    ),
    'an upload id of XML': said(
      '<InitiateMultipartUploadResult><UploadId><a/></UploadId></InitiateMultipartUploadResult>',
      '200 OK',
    ),
    'a completion of nothing': said('', '200 OK'),
    'a completion of spaces': said(' '.repeat(1000), '200 OK'),
    'a completion without an ETag': said(
      '<CompleteMultipartUploadResult><Key>k</Key></CompleteMultipartUploadResult>',
      '200 OK',
    ),
    'a completion that is cut': said('<CompleteMultipartUploadResult><ETag>x', '200 OK'),
    'the credentials': error(
      '400 No',
      'X',
      `<AWSAccessKeyId>${secrets[0]}</AWSAccessKeyId>`,
      secrets.join(' and '),
    ),
    'the credentials as a code': error('400 No', secrets[1] ?? '', '', 'no'),
    'the credentials as a region': error(
      '400 No',
      'AuthorizationHeaderMalformed',
      `<Region>${secrets[2]}</Region>`,
    ),
    'the signed request': (socket, _, heard) =>
      void socket.write(
        xml('403 No', `<Error><Code>X</Code><Message>${heard.slice(0, 900)}</Message></Error>`),
      ),
  }
}

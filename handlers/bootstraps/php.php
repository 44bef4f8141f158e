<?php
// The php side of a context: reads batches on fd 3, runs the tenant's handler over them, answers on fd 4.
//
// The example of how a language is added: this file, and a row in handlers/languages.py. It follows python.py step by step;
// docs/runner-protocol.md is the page for both. Standard extensions only. Everything of ours hides behind one class name,
// because the tenant's text shares the global namespace.
declare(strict_types=1);

final class FunctoryOutcome extends Error
{
    public function __construct(public int $status, public mixed $data, public int $afterMs = Functory::NO_DELAY)
    {
        parent::__construct("status $status");
    }
}

final class FunctoryTooBig extends Error
{
}

final class FunctoryRefused extends Error
{
    public function __construct(public string $field, string $text, public int $at = 0, public int $status = 400)
    {
        parent::__construct($text);
    }
}

final class FunctoryContext
{
    public array $newJobs = [];
    public array $secrets = [];
    public ?string $carried = null;
    private int $newJobsBytes = 0;

    public function __construct(
        public readonly string $id,
        public readonly string $type,
        public readonly int $attempt,
        public readonly string $payload,
        private readonly array $limits,
        private readonly Closure $tell,
        /** Its children, if it runs again after they have ended. */
        public readonly array $children = [],
    ) {
    }

    public function retry(?float $after_s = null, mixed $data = null): never
    {
        $afterMs = $after_s === null ? Functory::NO_DELAY : min(max((int) ($after_s * 1000), 0), Functory::MAX_U32);
        throw new FunctoryOutcome(100, $data, $afterMs);
    }

    public function fail(mixed $data = null, int $code = 400): never
    {
        if ($code < 400 || $code > 499) {
            throw new ValueError("fail takes a code from 400 to 499, not $code");
        }
        throw new FunctoryOutcome($code, $data);
    }

    public function enqueue(
        string $type,
        mixed $payload = '',
        ?float $delay_s = null,
        ?int $priority = null,
        string $domain = '',
        string $unique = '',
        bool $child = false,
        bool $sibling = false,
        string $key = '',
    ): void {
        if (!preg_match(Functory::TYPE, $type)) {
            throw new ValueError("not a job type: $type; letters, digits and _ . : - without the tenant");
        }
        if ($delay_s !== null && !($delay_s >= 0 && $delay_s <= 3_155_760_000)) {
            throw new ValueError("delay_s must be a number of seconds from 0 on, not $delay_s");
        }
        if ($priority !== null && !in_array($priority, [0, 500, 1000], true)) {
            throw new ValueError("priority must be 0, 500 or 1000, not $priority");
        }
        $options = ['delay_s' => $delay_s, 'priority' => $priority, 'domain' => $domain === '' ? null : $domain,
            'key' => $key === '' ? null : $key,
            'unique' => $unique === '' ? null : $unique, 'child' => $child ? 1 : null, 'sibling' => $sibling ? 1 : null];
        $query = http_build_query(array_filter($options, fn ($value) => $value !== null), '', '&', PHP_QUERY_RFC3986);
        if (strlen($query) > 2000) {
            throw new ValueError('the options of a new job are more than 2,000 characters: choose shorter names');
        }
        $head = $query === '' ? $type : "$type?$query";
        $this->add($head . '|' . (is_string($payload) ? $payload : Functory::dump($payload)));
    }

    /** The payload of the next round of a repeating job, or of the next attempt of one that is retried. */
    public function carry(mixed $data): void
    {
        $carried = is_string($data) ? $data : Functory::dump($data);
        if (strlen($carried) > $this->limits['new_job_bytes']) {
            throw new FunctoryTooBig("carried more than {$this->limits['new_job_bytes']} bytes on");
        }
        $this->carried = $carried;
    }

    /** How far the job has come: a number, a text, or what JSON can hold. Ten times a second is enough. */
    public function progress(mixed $value): void
    {
        $text = json_encode($value, JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR);
        if (strlen($text) > Functory::PROGRESS_BYTES) {
            throw new ValueError('progress of more than ' . Functory::PROGRESS_BYTES . ' bytes: say it in fewer words');
        }
        ($this->tell)($text);
    }

    public function add(string $line): void
    {
        $limits = $this->limits;
        $this->newJobsBytes += strlen($line);
        if (count($this->newJobs) >= $limits['new_jobs']) {
            throw new FunctoryTooBig("made more than {$limits['new_jobs']} new jobs");
        }
        if (strlen($line) > $limits['new_job_bytes']) {
            throw new FunctoryTooBig("made a new job of more than {$limits['new_job_bytes']} bytes");
        }
        if ($this->newJobsBytes > $limits['new_jobs_bytes']) {
            throw new FunctoryTooBig("made new jobs of more than {$limits['new_jobs_bytes']} bytes together");
        }
        $this->newJobs[] = $line;
    }
}

final class Functory
{
    public const NO_DELAY = 0xffffffff;
    public const MAX_U32 = 0xfffffffe;
    public const TYPE = '/^[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}$/D';
    public const PROGRESS_BYTES = 1000;
    private const PROGRESS_FREE = 10;
    private const PROGRESS_NS = 100_000_000; // after the first ten: what a job says of its progress more often is left out
    private const SLOW_NS = 20_000_000; // a job that runs longer prints through to the raw log
    private const LOAD = 1, BATCH = 2, CHECK = 3;
    private const HELLO = 1, LOADED = 2, REFUSED = 3, BEGUN = 4, STOPPED = 5, ENDED = 6, FAILED = 7, PROGRESS = 9;

    private $in;
    private $out;
    private array $slots = [];
    private bool $running = false;
    private $raw;
    private string $log = '';
    private int $dropped = 0;
    private string $marked = ''; // lines that make new jobs, of a log that was passed on
    private bool $inside = false; // the log begins within a line whose beginning was passed on
    private int $started = 0; // when the job that is running began, 0 between jobs
    private int $told = 0; // when progress was last told
    private int $timesTold = 0; // by the job that is running
    private int $number = 0; // of the batch

    public function serve(): void
    {
        $this->in = fopen('php://fd/3', 'rb');
        $this->out = fopen('php://fd/4', 'wb');
        $this->raw = fopen('php://fd/1', 'wb');
        if (is_string($folder = getenv('FUNCTORY_HANDLER'))) { // the files of a handler that is one
            chdir($folder);
        }
        stream_set_write_buffer($this->out, 0);
        stream_set_write_buffer($this->raw, 0);
        // Output is taken in pieces so that a handler that prints without end stays within its memory.
        ob_start(fn (string $text) => $this->print($text), 1);
        $this->reply(self::HELLO, 0, 1);
        while (($head = $this->read(8)) !== null) {
            ['length' => $length, 'kind' => $kind, 'slot' => $slot] = unpack('Vlength/vkind/vslot', $head);
            $body = $length ? $this->read($length) : '';
            if ($kind === self::BATCH) {
                if (isset($this->slots[$slot])) { // else its handler was refused, and it came along with that
                    $this->batch($this->slots[$slot], $body);
                }
                continue;
            }
            $spec = json_decode(substr($body, 4, unpack('V', $body)[1]), true);
            try {
                $kind === self::CHECK ? $this->check($spec) : $this->slots[$slot] = $this->load($spec);
                $this->reply(self::LOADED, 0, $slot);
            } catch (Throwable $err) {
                $known = $err instanceof FunctoryRefused;
                $report = ['field' => $known ? $err->field : 'body', 'line' => $known ? $err->at : 0, 'column' => 0,
                    'message' => $known ? $err->getMessage() : self::explain($err)];
                $this->reply(self::REFUSED, $known ? $err->status : 500, $slot, json_encode($report, JSON_INVALID_UTF8_SUBSTITUTE));
            }
        }
    }

    private function read(int $size): ?string
    {
        $data = '';
        while (strlen($data) < $size) {
            $more = fread($this->in, $size - strlen($data));
            if ($more === false || $more === '') {
                return null;
            }
            $data .= $more;
        }
        return $data;
    }

    private function write(string $data): void
    {
        while ($data !== '') {
            $data = substr($data, fwrite($this->out, $data));
        }
    }

    private function reply(int $kind, int $code, int $index, string $body = '', int $us = 0): void
    {
        $this->write(pack('VCCvVV', strlen($body), $kind, 0, $code, $index, min($us, self::MAX_U32)) . $body);
    }

    private function print(string $text): string
    {
        $this->log .= $text;
        if ($this->started && hrtime(true) - $this->started > self::SLOW_NS) {
            $this->passOn();
        }
        if (strlen($this->log) > 1 << 22) {
            $this->dropped += strlen($this->log) - (1 << 16);
            $this->log = substr($this->log, -(1 << 16));
        }
        return '';
    }

    /** All but new jobs leaves now, so that it can be followed. A line that has begun stays while it may become one. */
    private function passOn(): void
    {
        [$ready, $lines] = ['', explode("\n", $this->log)];
        $open = array_pop($lines);
        foreach ($lines as $line) {
            if ($this->inside || !preg_match('/^#?J: /', $line)) {
                $ready .= "$line\n";
            } else {
                $this->marked .= "$line\n";
            }
            $this->inside = false;
        }
        $may = str_starts_with('J: ', substr($open, 0, 3)) || str_starts_with('#J: ', substr($open, 0, 4));
        if ($open !== '' && ($this->inside || !$may)) {
            [$ready, $open, $this->inside] = [$ready . $open, '', true];
        }
        $this->log = $open;
        while ($ready !== '') {
            $ready = substr($ready, (int) fwrite($this->raw, $ready));
        }
    }

    private function tell(string $text): void
    {
        $now = hrtime(true);
        if ($this->started && ($this->timesTold < self::PROGRESS_FREE || $now - $this->told >= self::PROGRESS_NS)) {
            $this->told = $now;
            $this->timesTold++;
            $this->reply(self::PROGRESS, 0, $this->number, $text);
        }
    }

    /** All texts as functions that have not been called: compiled, and nothing of them has run. */
    private function check(array $spec): array
    {
        $made = [];
        foreach (['before', 'beforeEach', 'body', 'afterEach'] as $field) {
            $arguments = $field === 'body' ? 'string $payload, FunctoryContext $ctx' : '';
            $text = preg_replace('/^<\?php\b/', '', $spec[$field]);
            try {
                $made[$field] = $text === '' ? null : eval("return static function ($arguments) { $text\n};");
            } catch (ParseError $err) {
                $lines = substr_count($text, "\n") + 1; // the text may end too early: what follows it is ours
                throw new FunctoryRefused($field, $err->getMessage(), min($err->getLine(), $lines));
            }
        }
        return $made;
    }

    private function load(array $spec): array
    {
        $made = $this->check($spec);
        if ($made['before'] !== null) {
            try {
                $made['before']();
            } catch (Throwable $err) {
                throw new FunctoryRefused('before', self::explain($err), 0, 500);
            }
        }
        $secrets = [];
        foreach ($spec['secrets'] as $name) {
            $secrets[$name] = getenv($name);
        }
        return ['type' => $spec['type'], 'secrets' => $secrets, 'limits' => $spec['limits'], 'call' => $made['body'],
            'beforeEach' => $made['beforeEach'], 'afterEach' => $made['afterEach'],
            'statuses' => ($spec['returns'] ?? '') === 'status'];
    }

    private function batch(array $slot, string $body): void
    {
        ['number' => $number, 'count' => $count] = unpack('Vnumber/Vcount', $body);
        $this->number = $number;
        $tell = $this->tell(...);
        $sizes = array_values(unpack("V$count", $body, 8));
        $attempts = array_values(unpack("V$count", $body, 8 + 4 * $count));
        $at = 8 + 8 * $count;
        $idsBytes = unpack('V', $body, $at)[1];
        $ids = explode("\n", substr($body, $at + 4, $idsBytes));
        $at += 4 + $idsBytes;
        $family = $count === 1 ? substr($body, $at + $sizes[0]) : ''; // a single job is told of its children
        $children = $family === '' ? [] : json_decode($family, true, 512, JSON_THROW_ON_ERROR);
        if ($slot['beforeEach'] !== null) {
            if (!$this->hook($slot['beforeEach'], self::FAILED, $number)) {
                return;
            }
            $this->reply(self::BEGUN, 0, $number);
        }
        foreach ($sizes as $index => $size) {
            $ctx = new FunctoryContext($ids[$index], $slot['type'], $attempts[$index], substr($body, $at, $size), $slot['limits'], $tell, $children);
            $ctx->secrets = $slot['secrets'];
            $at += $size;
            $this->job($slot, $index, $ctx);
        }
        if ($slot['afterEach'] === null || $this->hook($slot['afterEach'], self::ENDED, $number)) {
            $this->reply(self::ENDED, 0, $number);
        }
    }

    private function hook(Closure $hook, int $kind, int $number): bool
    {
        try {
            $hook();
            return true;
        } catch (Throwable $err) {
            $this->reply($kind, 500, $number, self::explain($err));
            return false;
        }
    }

    private function job(array $slot, int $index, FunctoryContext $ctx): void
    {
        $afterMs = self::NO_DELAY;
        $this->timesTold = 0;
        $this->started = $started = hrtime(true);
        try {
            [$code, $result] = self::judge(($slot['call'])($ctx->payload, $ctx), $slot['statuses']);
        } catch (FunctoryOutcome $made) {
            [$code, $result] = self::judge([$made->status, $made->data], true);
            $afterMs = $made->afterMs;
        } catch (FunctoryTooBig $err) {
            [$code, $result] = [413, $err->getMessage()];
        } catch (Throwable $err) {
            [$code, $result] = [500, self::explain($err)];
        }
        $us = intdiv(hrtime(true) - $started, 1000);
        ob_flush();
        [$log, $dropped] = [$this->marked . $this->log, $this->dropped];
        [$this->log, $this->marked, $this->dropped, $this->inside, $this->started] = ['', '', 0, false, 0];
        try {
            $log = str_contains($log, 'J: ') ? $this->takeMarks($log, $ctx) : $log;
            $limit = $slot['limits']['result_bytes'];
            if (strlen($result) > $limit) {
                throw new FunctoryTooBig('returned ' . strlen($result) . " bytes, the limit is $limit");
            }
        } catch (FunctoryTooBig $err) {
            [$code, $result, $ctx->newJobs] = [413, $err->getMessage(), []];
        }
        $newJobs = $code >= 500 ? [] : $ctx->newJobs; // it will run again and make them again
        $keep = $slot['limits']['log_bytes'];
        $dropped += max(strlen($log) - $keep, 0);
        $log = substr($log, -$keep);
        $carried = $code >= 500 || $code === 413 ? null : $ctx->carried;
        if ($code === 200 && $result === '' && $log === '' && !$newJobs && $carried === null) {
            $this->reply(self::STOPPED, 200, $index, '', $us);
            return;
        }
        $body = pack('VVVVV', strlen($result), strlen($log), min($dropped, self::MAX_U32), $afterMs, count($newJobs));
        $body .= $result . $log;
        foreach ($carried === null ? $newJobs : [...$newJobs, $carried] as $line) {
            $body .= pack('V', strlen($line)) . $line;
        }
        $this->reply(self::STOPPED, $code, $index, $body, $us);
    }

    private function takeMarks(string $text, FunctoryContext $ctx): string
    {
        $rest = [];
        foreach (explode("\n", $text) as $line) {
            if (preg_match('/^#?J: (.*)$/Ds', $line, $found)) {
                [$type, $payload] = explode('|', $found[1], 2) + [1 => null];
                [$name, $options] = explode('?', $type, 2) + [1 => ''];
                if ($payload !== null && preg_match(self::TYPE, $name) && preg_match('/^[!-~]{0,2000}$/D', $options)) {
                    $ctx->add($found[1]);
                    continue;
                }
                $line .= ' [not a new job: write J: type|payload]';
            }
            $rest[] = $line;
        }
        return implode("\n", $rest);
    }

    private static function judge(mixed $value, bool $numbersAreStatuses): array
    {
        [$code, $data] = [200, $value];
        if ($numbersAreStatuses && is_int($value)) {
            [$code, $data] = [$value, null];
        } elseif (is_array($value) && array_is_list($value) && count($value) === 2 && is_int($value[0])) {
            [$code, $data] = $value;
        }
        if (!(($code >= 100 && $code <= 299) || ($code >= 400 && $code <= 599))) {
            return [500, "returned $code, an invalid status code; use 1xx, 2xx, 4xx or 5xx"];
        }
        try {
            return [$code, self::dump($data)];
        } catch (JsonException $err) {
            return [500, 'returned what JSON cannot hold: ' . $err->getMessage()];
        }
    }

    public static function dump(mixed $data): string
    {
        return $data === null ? '' : json_encode($data, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
    }

    private static function explain(Throwable $err): string
    {
        $lines = [get_class($err) . ': ' . $err->getMessage() . ' in line ' . $err->getLine()];
        foreach ($err->getTrace() as $frame) {
            if (str_contains($frame['file'] ?? '', "eval()'d code")) { // the tenant's text; all others are of this file
                $name = str_contains($frame['function'], '{closure') ? '{closure}' : $frame['function'];
                $owner = str_starts_with($name, '{') ? '' : ($frame['class'] ?? '') . ($frame['type'] ?? '');
                $lines[] = '#' . count($lines) - 1 . " handler.php({$frame['line']}): $owner$name()";
            }
        }
        return substr(implode("\n", $lines), 0, 8000);
    }
}

set_error_handler(function (int $level, string $text, string $file, int $line): bool {
    throw new ErrorException($text, 0, $level, $file, $line);
});
(new Functory())->serve();

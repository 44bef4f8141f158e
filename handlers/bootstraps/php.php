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
        /** The job whose result it gets: id, type, code. */
        public readonly ?array $follows = null,
    ) {
    }

    public function retry(?float $after_s = null, mixed $data = null): never
    {
        if ($after_s !== null && is_nan($after_s)) {
            throw new ValueError('retry takes seconds as after_s, not NAN');
        }
        $afterMs = $after_s === null ? Functory::NO_DELAY : (int) min(max($after_s * 1000, 0), Functory::MAX_U32);
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
        ?string $domain = null,
        ?string $unique = null,
        bool $child = false,
        bool $sibling = false,
        ?string $key = null,
        ?int $max_attempts = null,
        ?int $retry_base_ms = null,
        ?int $retry_max_ms = null,
        ?int $retry_window_s = null,
        ?int $max_wait_s = null,
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
        $limits = ['max_attempts' => $max_attempts, 'retry_base_ms' => $retry_base_ms, 'retry_max_ms' => $retry_max_ms,
            'retry_window_s' => $retry_window_s, 'max_wait_s' => $max_wait_s];
        foreach ($limits as $name => $value) {
            if ($value !== null && $value < 1) {
                throw new ValueError("$name must be a whole number from 1 on, not $value");
            }
        }
        $options = ['delay_s' => $delay_s, 'priority' => $priority, 'domain' => $domain, 'key' => $key,
            'unique' => $unique, 'child' => $child ? 1 : null, 'sibling' => $sibling ? 1 : null, ...$limits];
        foreach (array_keys($options, '', true) as $name) {
            throw new ValueError("$name is empty: leave it out if the job has none");
        }
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
        if (count($this->newJobs) >= $limits['new_jobs']) {
            throw new FunctoryTooBig("made more than {$limits['new_jobs']} new jobs");
        }
        if (strlen($line) > $limits['new_job_bytes']) {
            throw new FunctoryTooBig("made a new job of more than {$limits['new_job_bytes']} bytes");
        }
        if ($this->newJobsBytes + strlen($line) > $limits['new_jobs_bytes']) {
            throw new FunctoryTooBig("made new jobs of more than {$limits['new_jobs_bytes']} bytes together");
        }
        $this->newJobsBytes += strlen($line);
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
    private const LOG_BYTES = 1 << 22; // of a quick job: when there are more, the beginning is left out
    private const FATAL = E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR;
    private const MARKED = '/^#?J: [^\n]*\n/m';
    /** A text in pieces: strings, other text, comments, names, blanks, and all else one by one. */
    private const PIECES = '~\'(?:\\\\.|[^\'\\\\])*+\'|"(?:\\\\.|[^"\\\\])*+"|`(?:\\\\.|[^`\\\\])*+`'
            . '|<<<[ \t]*(["\']?)([\w\x80-\xff]+)\1\R.*?^[ \t]*\2(?![\w\x80-\xff])|\?>.*?(?:<\?(?:php\b|=)|\z)'
            . '|(?://|\#(?!\[))(?:(?!\?>)[^\n])*|/\*.*?\*/|\$?[\w\\\\\x80-\xff]+|\s+|.~smA';
    private const LOAD = 1, BATCH = 2, CHECK = 3;
    private const HELLO = 1, LOADED = 2, REFUSED = 3, BEGUN = 4, STOPPED = 5, ENDED = 6, FAILED = 7, LEAVING = 8, PROGRESS = 9;

    private $in;
    private $out;
    private array $slots = [];
    private $raw;
    private string $log = '';
    private int $dropped = 0;
    private string $marked = ''; // lines that make new jobs, of a log that was passed on
    private bool $inside = false; // the log begins within a line whose beginning was passed on, or left out
    private bool $overlong = false; // it had a line for a new job that was too long
    private bool $isCapturing = false;
    private int $lineMax = 1 << 20;
    private bool $makesJobs = true; // whether printed lines do
    private int $started = 0; // when the job that is running began, 0 between jobs
    private ?Closure $broken = null; // reports the job that is running, or the text that is compiled, when a fatal error or exit ends it
    private static string $entry = ''; // the path of a folder's entry
    private int $told = 0; // when progress was last told
    private int $timesTold = 0; // by the job that is running
    private int $number = 0; // of the batch
    private int $pid = 0;
    private bool $isCopy = false; // of the process that runs the jobs: a handler has forked it
    /** The variables that hooks have left, by name. A job gets a copy. */
    public static array $shared = [];
    private array $declared = []; // functions and classes of bodies: their text, by kind and name

    public function serve(): void
    {
        $this->pid = getmypid();
        $this->in = fopen('php://fd/3', 'rb');
        $this->out = fopen('php://fd/4', 'wb');
        $this->raw = fopen('php://fd/1', 'wb');
        if (is_string($folder = getenv('FUNCTORY_HANDLER'))) { // the files of a handler that is one
            chdir($folder);
        }
        stream_set_write_buffer($this->out, 0);
        stream_set_write_buffer($this->raw, 0);
        ini_set('display_errors', '0'); // a fatal error is told below
        register_shutdown_function($this->leave(...));
        $this->capture();
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
                $kind === self::CHECK ? $this->check($spec, $slot) : $this->slots[$slot] = $this->load($spec, $slot);
                $this->reply(self::LOADED, 0, $slot);
            } catch (Throwable $err) {
                $this->refuse($slot, $err);
            }
        }
    }

    private function refuse(int $slot, Throwable $err): void
    {
        $known = $err instanceof FunctoryRefused;
        $report = ['field' => $known ? $err->field : 'body', 'line' => $known ? $err->at : 0, 'column' => 0,
            'message' => $known ? $err->getMessage() : self::explain($err)];
        $this->reply(self::REFUSED, $known ? $err->status : 500, $slot, json_encode($report, JSON_INVALID_UTF8_SUBSTITUTE));
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

    /** A copy has nothing to report. What it prints is shown, but not once more what was printed before it was made. */
    private function isCopy(): bool
    {
        if (getmypid() !== $this->pid) {
            [$this->pid, $this->isCopy] = [getmypid(), true];
            $this->forgetLog();
        }
        return $this->isCopy;
    }

    private function write(string $data): void
    {
        if ($this->isCopy()) {
            exit(0);
        }
        while ($data !== '') {
            $data = substr($data, fwrite($this->out, $data));
        }
    }

    private function reply(int $kind, int $code, int $index, string $body = '', int $us = 0): void
    {
        $this->write(pack('VCCvVV', strlen($body), $kind, 0, $code, $index, min($us, self::MAX_U32)) . $body);
    }

    /** Output is taken in pieces so that a handler that prints without end stays within its memory. */
    private function capture(): void
    {
        $this->isCapturing = true;
        ob_start(fn (string $text, int $phase) => $this->print($text, $phase), 1);
    }

    private function print(string $text, int $phase): string
    {
        if ($phase & PHP_OUTPUT_HANDLER_FINAL) { // the job has ended our buffer: what follows goes to the raw log by itself
            $this->isCapturing = false;
            if ($this->started) { // and there it is taken for the text of a job that is not a quick one
                usleep(max(0, intdiv(self::SLOW_NS + 10_000_000 - (hrtime(true) - $this->started), 1000)));
            }
        }
        $this->isCopy(); // what is in the log by now may be another's
        $this->log .= $text;
        if ($this->started && hrtime(true) - $this->started > self::SLOW_NS) {
            $this->passOn();
        }
        if (strlen($this->log) > self::LOG_BYTES) {
            $this->shorten();
        }
        return '';
    }

    /** What is in buffers that were left open, and ours again if it was ended. */
    private function collect(): void
    {
        try {
            while (ob_get_level() > ($this->isCapturing ? 1 : 0)) {
                ob_end_flush();
            }
        } catch (Throwable) { // one that cannot be ended, or whose function fails: it stays
        }
        if (!$this->isCapturing) {
            $this->capture();
        }
    }

    /** Whole lines without those that make new jobs, which are set aside, and the line that has begun. */
    private function divide(): array
    {
        $end = (int) strrpos("\n" . $this->log, "\n");
        [$done, $open] = [substr($this->log, 0, $end), substr($this->log, $end)];
        if ($this->makesJobs && str_contains($done, 'J: ')) {
            $first = $this->inside ? strpos($done, "\n") + 1 : 0;
            $done = substr($done, 0, $first) . preg_replace_callback(self::MARKED, function (array $found): string {
                $this->marked .= $found[0];
                return '';
            }, substr($done, $first));
        }
        $this->inside = $this->inside && $end === 0;
        return [$done, $open];
    }

    /** All but new jobs leaves now, so that it can be followed. A line that has begun stays while it may become one. */
    private function passOn(): void
    {
        [$ready, $open] = $this->divide();
        $may = $this->makesJobs && (str_starts_with('J: ', substr($open, 0, 3)) || str_starts_with('#J: ', substr($open, 0, 4)));
        if ($open !== '' && ($this->inside || !$may)) {
            [$ready, $open, $this->inside] = [$ready . $open, '', true];
        }
        $this->log = $open;
        $this->writeRaw($ready);
    }

    /** The end of the log is kept, and new jobs. */
    private function shorten(): void
    {
        [$text, $open] = $this->divide();
        $isMarked = $this->makesJobs && !$this->inside && preg_match('/^#?J: /', $open);
        if (!$isMarked || strlen($open) > $this->lineMax + 4) {
            $this->overlong = $this->overlong || $isMarked;
            [$text, $open] = [$text . $open, ''];
        }
        if (strlen($text) > 1 << 16) {
            $this->dropped += strlen($text) - (1 << 16);
            $text = substr($text, -(1 << 16));
            $this->inside = true;
        }
        $this->log = $text . $open;
    }

    private function writeRaw(string $text): void
    {
        while ($text !== '') {
            $text = substr($text, (int) fwrite($this->raw, $text));
        }
    }

    /** Of a hook: what a job prints is not to stand behind it. */
    private function endLine(): void
    {
        $this->collect();
        if ($this->inside || ($this->log !== '' && !str_ends_with($this->log, "\n"))) {
            $this->log .= "\n";
        }
    }

    private function forgetLog(): void
    {
        [$this->log, $this->marked, $this->dropped, $this->inside, $this->overlong] = ['', '', 0, false, false];
    }

    /**
     * The process ends. If a job is running, an error that nothing can catch is its own, and so is an exit, with what it
     * printed: on the raw log that could be taken for what the job before it says. Else what was printed is shown.
     */
    private function leave(): void
    {
        ini_set('memory_limit', '-1'); // it may be what the error is about
        $fatal = error_get_last();
        $fatal = $fatal !== null && ($fatal['type'] & self::FATAL) ? $fatal : null;
        if (!$this->isCopy() && $this->broken !== null) {
            ($this->broken)($fatal);
            $this->reply(self::LEAVING, 0, $this->number);
        } else {
            $this->collect();
            $this->writeRaw($this->log . ($fatal === null ? '' : self::explainFatal($fatal) . "\n"));
            [$this->started, $this->log] = [0, '']; // our buffer ends after this, and shows nothing once more
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
    private function check(array $spec, int $slot): array
    {
        $made = [];
        self::$entry = ($spec['entry'] ?? '') === '' ? '' : getcwd() . '/' . $spec['entry'];
        foreach (['before', 'beforeEach', 'body', 'afterEach'] as $field) {
            [$strict, $text] = self::prepare($spec[$field]);
            $lines = substr_count($text, "\n") + 1; // the text may end too early: what follows it is ours
            $this->broken = function (array $fatal) use ($slot, $field, $lines): void { // not all that is wrong is thrown
                $this->refuse($slot, new FunctoryRefused($field, self::withoutOurs($fatal['message']), min($fatal['line'], $lines)));
            };
            try {
                $made[$field] = $text === '' ? null : self::compile($field, $strict, $text);
            } catch (ParseError $err) {
                throw new FunctoryRefused($field, $err->getMessage(), min($err->getLine(), $lines));
            } finally {
                $this->broken = null;
            }
        }
        return $made;
    }

    /** What must be the first statement of a file, or nothing; and the text without that and without the tags of a file. */
    private static function prepare(string $given): array
    {
        $text = preg_replace(['/^<\?php\b/', '/\?>\s*$/D'], ['', ';'], $given) ?? $given;
        $comments = '(?:\s|//[^\n]*\n|\#(?!\[)[^\n]*\n|/\*.*?\*/)*+';
        if (!preg_match("~^{$comments}declare\s*\(\s*strict_types\s*=\s*([01])\s*\)\s*;~is", $text, $found)) {
            return ['', self::placed($text)];
        }
        $rest = str_repeat("\n", substr_count($found[0], "\n")) . substr($text, strlen($found[0])); // its lines stay
        return ["declare(strict_types=$found[1]); ", self::placed($rest)];
    }

    /** In a folder the name and place of its entry, and not ours. */
    private static function placed(string $text): string
    {
        if (self::$entry === '') {
            return $text;
        }
        $places = ['__dir__' => var_export(dirname(self::$entry), true), '__file__' => var_export(self::$entry, true)];
        $made = '';
        for ($at = 0; preg_match(self::PIECES, $text, $found, 0, $at); $at += strlen($found[0])) {
            $made .= $places[strtolower($found[0])] ?? $found[0];
        }
        return $at === strlen($text) ? $made : $text; // or it was too much for a pattern
    }

    /** Hooks share their variables, and a job gets a copy of them. */
    private static function compile(string $field, string $strict, string $text): Closure
    {
        if ($field === 'body') {
            $start = 'static function (string $payload, FunctoryContext $ctx) { extract(Functory::$shared, EXTR_SKIP);';
            return eval("{$strict}return $start $text\n};");
        }
        $start = 'static function () { extract(Functory::$shared); try {';
        return eval("{$strict}return $start $text\n} finally { Functory::\$shared = get_defined_vars(); }};");
    }

    /** The same text with the functions and classes that it declares declared once, now, and not by every job. */
    private function declareOnce(string $field, string $strict, string $text): Closure
    {
        [$declarations, $rest] = self::declarationsOf($text);
        try {
            $made = self::compile($field, $strict, $rest);
            self::compile($field, $strict, implode('', $declarations));
        } catch (ParseError) { // it was not understood
            return self::compile($field, $strict, $text);
        }
        foreach ($declarations as $name => $declaration) {
            if (self::isDeclared($name)) {
                if (($this->declared[$name] ?? '') !== $strict . trim($declaration)) {
                    throw new FunctoryRefused($field, "declares the $name, and there is another one of that name", 0, 500);
                }
                unset($declarations[$name]);
            }
            $this->declared[$name] = $strict . trim($declaration);
        }
        do {
            $left = count($declarations);
            foreach ($declarations as $name => $declaration) {
                try {
                    if (!str_starts_with($name, 'function ')) { // one is declared whatever it uses, and when it runs
                        self::requireTraits($declaration);
                    }
                    eval($strict . $declaration);
                    unset($declarations[$name]);
                } catch (Throwable) { // what a class is based on is not there: it comes later in the text, or the first job has it
                }
            }
        } while ($declarations && count($declarations) < $left);
        return $made;
    }

    /** A trait that is not there is a fatal error; of all else php throws one. */
    private static function requireTraits(string $declaration): void
    {
        preg_match_all('/\buse\s+([\w\\\\\x80-\xff]+(?:\s*,\s*[\w\\\\\x80-\xff]+)*)\s*[;{]/i', $declaration, $found);
        foreach ($found[1] as $names) {
            foreach (preg_split('/\s*,\s*/', $names) as $name) {
                if (!trait_exists($name)) {
                    throw new Error("Trait \"$name\" not found");
                }
            }
        }
    }

    public static function isDeclared(string $kindAndName): bool
    {
        [$kind, $name] = explode(' ', $kindAndName);
        return $kind === 'function' ? function_exists($name)
            : class_exists($name, false) || interface_exists($name, false) || trait_exists($name, false);
    }

    /**
     * Those outside all brackets, by kind and name, each behind as many lines as in the text; and the text without the
     * functions, and with classes only if they are not there. The tokenizer of php is not compiled in.
     */
    private static function declarationsOf(string $text): array
    {
        [$declarations, $rest, $statement, $depth, $isClean, $kind, $name, $last] = [[], '', '', 0, true, '', '', ''];
        [$first, $blocks] = ['', 0]; // of the statement; those that are open and have no brackets: if (…): … endif
        for ($at = 0; preg_match(self::PIECES, $text, $found, 0, $at); $at += strlen($piece)) {
            $piece = $found[0];
            $statement .= $piece;
            if (trim($piece) === '' || preg_match('~^(//|/\*|#.)~s', $piece)) {
                continue;
            }
            $word = strtolower($piece);
            $first = $first === '' ? $word : $first;
            $opens = $depth === 0 && $piece === ':' && $last === ')' && in_array($first, ['if', 'for', 'foreach', 'while', 'switch'], true);
            $closes = $depth === 0 && in_array($word, ['endif', 'endfor', 'endforeach', 'endwhile', 'endswitch'], true);
            $blocks += (int) $opens - (int) $closes;
            if ($blocks < 0) {
                break;
            }
            if (str_contains('([{', $piece)) {
                $isClean = $isClean && ($depth > 0 || ($piece === '[' && $last === '#'));
                $depth++;
            } elseif (str_contains(')]}', $piece)) {
                $depth--;
            } elseif ($depth === 0 && $kind !== '' && $name === '' && $piece !== '&') {
                $name = preg_match('/^[a-z_\x80-\xff][\w\x80-\xff]*$/', $word) ? $piece : '?';
            } elseif ($depth === 0 && $isClean && in_array($word, ['function', 'class', 'interface', 'trait', 'enum'], true)) {
                [$kind, $isClean] = [$word, false];
            } elseif ($depth === 0 && !in_array($word, ['abstract', 'final', 'readonly', '#'], true)) {
                $isClean = false;
            }
            $last = $piece;
            if ($depth === 0 && ($opens || $piece === '}' || $piece === ';' || str_starts_with($piece, '?>'))) {
                if ($piece === '}' && $kind !== '' && $name !== '' && $name !== '?') {
                    $declarations["$kind $name"] = str_repeat("\n", substr_count($rest, "\n")) . $statement;
                    $statement = $kind === 'function' ? str_repeat("\n", substr_count($statement, "\n"))
                        : " if (!Functory::isDeclared('$kind $name')) { $statement }";
                }
                $rest .= $statement;
                [$statement, $isClean, $kind, $name, $last, $first] = ['', $blocks === 0, '', '', '', ''];
            }
        }
        $isRead = $at === strlen($text) && $blocks === 0; // or it was too much for a pattern
        return $isRead ? [$declarations, $rest . $statement] : [[], $text];
    }

    private function load(array $spec, int $slot): array
    {
        $this->lineMax = $spec['limits']['new_job_bytes'];
        $this->makesJobs = $spec['limits']['printed_jobs'];
        ini_set('memory_limit', "{$spec['limits']['memory_mb']}M"); // as the context has: php has a limit of its own
        $made = $this->check($spec, $slot);
        if ($made['before'] !== null) {
            try {
                $made['before']();
            } catch (Throwable $err) {
                throw new FunctoryRefused('before', self::explain($err), 0, 500);
            }
        }
        foreach (['beforeEach', 'body', 'afterEach'] as $field) {
            if ($made[$field] !== null && preg_match('/\b(function|class|interface|trait|enum)\b/i', $spec[$field])) {
                $made[$field] = $this->declareOnce($field, ...self::prepare($spec[$field]));
            }
        }
        $this->endLine();
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
        $this->makesJobs = $slot['limits']['printed_jobs'];
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
                $this->collect();
                $this->forgetLog();
                return;
            }
            $this->endLine();
            $this->reply(self::BEGUN, 0, $number);
        }
        foreach ($sizes as $index => $size) {
            [$id, $origin] = explode(' ', $ids[$index], 2) + [1 => null];
            $follows = $origin === null ? null : array_combine(['id', 'type', 'code'], explode(' ', $origin));
            $ctx = new FunctoryContext($id, $slot['type'], $attempts[$index], substr($body, $at, $size), $slot['limits'], $tell, $children, $follows);
            $ctx->secrets = $slot['secrets'];
            $at += $size;
            $this->job($slot, $index, $ctx);
        }
        $isDone = $slot['afterEach'] === null || $this->hook($slot['afterEach'], self::ENDED, $number);
        $this->collect();
        $this->forgetLog(); // what afterEach prints belongs to no job
        if ($isDone) {
            $this->reply(self::ENDED, 0, $number);
        }
    }

    private function hook(Closure $hook, int $kind, int $number): bool
    {
        try {
            $hook();
            return true;
        } catch (Throwable $err) {
            $this->endLine();
            $this->passOn(); // to the first job of the batch, and no other
            $this->reply($kind, 500, $number, self::explain($err));
            return false;
        }
    }

    private function job(array $slot, int $index, FunctoryContext $ctx): void
    {
        $afterMs = self::NO_DELAY;
        $this->timesTold = 0;
        $this->started = $started = hrtime(true);
        $this->broken = function (?array $fatal) use ($slot, $index, $ctx): void {
            if ($fatal === null) {
                $this->finish($slot, $index, $ctx, 502, 'the process ended during the job, with exit or die', self::NO_DELAY);
                return;
            }
            $isMemory = preg_match('/^(Allowed memory size|Out of memory)/', $fatal['message']);
            $told = $isMemory ? "out of memory: the limit is {$slot['limits']['memory_mb']} MB" : self::explainFatal($fatal);
            $this->finish($slot, $index, $ctx, $isMemory ? 507 : 500, $told, self::NO_DELAY);
        };
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
        $this->finish($slot, $index, $ctx, $code, $result, $afterMs);
    }

    private function finish(array $slot, int $index, FunctoryContext $ctx, int $code, string $result, int $afterMs): void
    {
        if ($this->isCopy()) {
            exit(0);
        }
        $us = intdiv(hrtime(true) - $this->started, 1000);
        $this->collect();
        [$marked, $log, $dropped, $inside, $overlong] = [$this->marked, $this->log, $this->dropped, $this->inside, $this->overlong];
        $this->forgetLog();
        try {
            if ($overlong) {
                throw new FunctoryTooBig("printed a new job line of more than {$slot['limits']['new_job_bytes']} bytes");
            }
            $log = $this->takeMarks($marked, false, $ctx) . $this->takeMarks($log, $inside, $ctx);
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
            [$this->started, $this->broken] = [0, null];
            $this->reply(self::STOPPED, 200, $index, '', $us);
            return;
        }
        $body = pack('VVVVV', strlen($result), strlen($log), min($dropped, self::MAX_U32), $afterMs, count($newJobs));
        $body .= $result . $log;
        foreach ($carried === null ? $newJobs : [...$newJobs, $carried] as $line) {
            $body .= pack('V', strlen($line)) . $line;
        }
        [$this->started, $this->broken] = [0, null];
        $this->reply(self::STOPPED, $code, $index, $body, $us);
    }

    private function takeMarks(string $text, bool $inside, FunctoryContext $ctx): string
    {
        if (!$this->makesJobs || !str_contains($text, 'J: ')) {
            return $text;
        }
        $rest = [];
        foreach (explode("\n", $text) as $number => $line) {
            if (!($inside && $number === 0) && preg_match('/^#?J: (.*)$/Ds', $line, $found)) {
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
        $frames = array_filter($err->getTrace(), fn (array $frame): bool => self::fileOf($frame['file'] ?? '') !== null);
        $place = self::placeOf($err->getFile(), $err->getLine());
        if ($place === '' && $frames) { // thrown by what we give to the text
            $first = reset($frames);
            $place = self::placeOf($first['file'], $first['line']);
        }
        $lines = [get_class($err) . ': ' . $err->getMessage() . $place];
        foreach (array_values($frames) as $number => $frame) {
            $name = str_contains($frame['function'], '{closure') ? '{closure}' : $frame['function'];
            $owner = str_starts_with($name, '{') ? '' : ($frame['class'] ?? '') . ($frame['type'] ?? '');
            $lines[] = "#$number " . self::fileOf($frame['file']) . "({$frame['line']}): $owner$name()";
        }
        for ($cause = $err->getPrevious(); $cause !== null && count($lines) < 100; $cause = $cause->getPrevious()) {
            $lines[] = 'Caused by: ' . get_class($cause) . ': ' . $cause->getMessage() . self::placeOf($cause->getFile(), $cause->getLine());
        }
        return substr(implode("\n", $lines), 0, 8000);
    }

    /** The name of a file of the tenant's; null if it is ours. */
    private static function fileOf(string $path): ?string
    {
        if (str_contains($path, "eval()'d code")) {
            return self::$entry === '' ? 'handler.php' : basename(self::$entry);
        }
        return $path === '' || $path === __FILE__ ? null : basename($path);
    }

    /** The line of the text itself, or the file and its line; nothing if it is ours. */
    private static function placeOf(string $path, int $line): string
    {
        if (str_contains($path, "eval()'d code")) {
            return " in line $line";
        }
        $file = self::fileOf($path);
        return $file === null ? '' : " in $file, line $line";
    }

    private static function withoutOurs(string $text): string
    {
        return preg_replace("~\\S*php\\.php\\(\\d+\\) : eval\\(\\)'d code~", self::fileOf("eval()'d code"), $text);
    }

    private static function explainFatal(array $fatal): string
    {
        return substr('Fatal error: ' . self::withoutOurs($fatal['message']) . self::placeOf($fatal['file'], $fatal['line']), 0, 8000);
    }
}

set_error_handler(function (int $level, string $text, string $file, int $line): bool {
    if (!(error_reporting() & $level)) { // silenced with @, and to be had from error_get_last
        return false;
    }
    throw new ErrorException($text, 0, $level, $file, $line);
});
(new Functory())->serve();

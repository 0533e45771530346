/* Built and run with a JDK on Linux only: no Android device has been seen. See docs/phones.md.
 *
 * The native side of vknn.Net. Handles are pointers in Java's longs; Net.java sees to it that they
 * are open and used by one thread at a time. Texts cross as UTF-8 in byte arrays: JNI's own strings
 * are modified UTF-8, and a bundle's names may be anything. */
#include <jni.h>
#include <stdlib.h>
#include <string.h>

#include "../vknn_run.h"

#define NET(handle) ((vknn_net *)(intptr_t)(handle))
#define CONTEXT(handle) (((holder *)(intptr_t)(handle))->context)
#define HANDLE(pointer) ((jlong)(intptr_t)(pointer))

#ifdef __ANDROID__ /* whose jni.h types it as C++ would */
#define ATTACHED(env) (&(env))
#else
#define ATTACHED(env) ((void **)&(env))
#endif

/* A context, and what its log takes to reach Java: none where nobody listens. */
typedef struct holder {
    vknn_context *context;
    JavaVM *machine;
    jobject log;
    jclass net; /* looked up by no thread of the runner's own: those do not see an app's classes */
    jmethodID tell;
} holder;

/* Bytes of a Java array that ends with 0, or null. To be given back by release. */
static const char *text_of(JNIEnv *env, jbyteArray array)
{
    return array ? (const char *)(*env)->GetByteArrayElements(env, array, NULL) : NULL;
}

static void release(JNIEnv *env, jbyteArray array, const void *bytes)
{
    if (array && bytes)
        (*env)->ReleaseByteArrayElements(env, array, (jbyte *)(intptr_t)bytes, JNI_ABORT);
}

/* Null for null, or where Java has no memory, which is then thrown. */
static jbyteArray array_of(JNIEnv *env, const char *text)
{
    const jsize size = text ? (jsize)strlen(text) : 0;
    jbyteArray array = text ? (*env)->NewByteArray(env, size) : NULL;
    if (array)
        (*env)->SetByteArrayRegion(env, array, 0, size, (const jbyte *)text);
    return array;
}

static void fail(JNIEnv *env, vknn_status status, const char *why)
{
    jclass kind = (*env)->FindClass(env, "vknn/Net$Failure");
    jmethodID make = kind ? (*env)->GetMethodID(env, kind, "<init>", "(I[B)V") : NULL;
    jbyteArray text = make ? array_of(env, why) : NULL;
    jobject failure = text ? (*env)->NewObject(env, kind, make, (jint)status, text) : NULL;
    if (failure)
        (*env)->Throw(env, (jthrowable)failure);
}

static void check(JNIEnv *env, vknn_net *net, vknn_status status)
{
    if (status != VKNN_OK)
        fail(env, status, vknn_net_message(net));
}

/* A text of the runner as an array, and freed. */
static jbyteArray taken(JNIEnv *env, char *text)
{
    jbyteArray array = array_of(env, text);
    if (text)
        vknn_free(NULL, text);
    return array;
}

static vknn_direction direction_of(jboolean is_input)
{
    return is_input ? VKNN_INPUT : VKNN_OUTPUT;
}

/* The runner's log; threads that make pipelines call it, too, which Java does not know. */
static void told(void *user, const char *text)
{
    holder *h = user;
    JNIEnv *env = NULL;
    jbyteArray line;
    const int is_known = (*h->machine)->GetEnv(h->machine, (void **)&env, JNI_VERSION_1_6) == JNI_OK;
    if (!is_known && (*h->machine)->AttachCurrentThread(h->machine, ATTACHED(env), NULL) != JNI_OK)
        return;
    line = (*env)->ExceptionCheck(env) ? NULL : array_of(env, text);
    if (line) {
        (*env)->CallStaticVoidMethod(env, h->net, h->tell, h->log, line);
        if ((*env)->ExceptionCheck(env)) {
            (*env)->ExceptionDescribe(env);
            (*env)->ExceptionClear(env);
        }
        (*env)->DeleteLocalRef(env, line);
    }
    if (!is_known)
        (*h->machine)->DetachCurrentThread(h->machine);
}

static void drop(JNIEnv *env, holder *h)
{
    if (h && h->log)
        (*env)->DeleteGlobalRef(env, h->log);
    if (h && h->net)
        (*env)->DeleteGlobalRef(env, h->net);
    free(h);
}

/* A holder with no context yet; null, and thrown, where there is no memory. */
static holder *held(JNIEnv *env, jclass self, jobject log)
{
    holder *h = calloc(1, sizeof *h);
    if (h && log && (*env)->GetJavaVM(env, &h->machine) == JNI_OK) {
        h->log = (*env)->NewGlobalRef(env, log);
        h->net = (jclass)(*env)->NewGlobalRef(env, self);
        h->tell = (*env)->GetStaticMethodID(env, self, "tell", "(Lvknn/Net$Log;[B)V");
    }
    if (h && (!log || (h->log && h->net && h->tell)))
        return h;
    drop(env, h);
    if (!(*env)->ExceptionCheck(env))
        fail(env, VKNN_ERROR_HOST_MEMORY, "Java has no memory for a log");
    return NULL;
}

JNIEXPORT jint JNICALL Java_vknn_Net_interfaceVersion(JNIEnv *env, jclass self)
{
    (void)env;
    (void)self;
    return (jint)vknn_run_version();
}

JNIEXPORT jbyteArray JNICALL Java_vknn_Net_nameOfStatus(JNIEnv *env, jclass self, jint status)
{
    (void)self;
    return array_of(env, vknn_status_name((vknn_status)status));
}

JNIEXPORT jlong JNICALL Java_vknn_Net_createContext(JNIEnv *env, jclass self, jbyteArray device,
                                                    jbyteArray cache, jint threads, jboolean robust,
                                                    jobject log)
{
    vknn_context_options options;
    vknn_message why;
    vknn_status status;
    holder *h = held(env, self, log);
    if (!h)
        return 0;
    memset(&options, 0, sizeof options);
    options.device = text_of(env, device);
    options.cache = text_of(env, cache);
    options.threads = threads > 0 ? (unsigned)threads : 0;
    options.robust = robust ? 1 : 0;
    options.log = log ? told : NULL;
    options.user = h;
    status = vknn_context_create(&options, &h->context, &why);
    release(env, device, options.device);
    release(env, cache, options.cache);
    if (status == VKNN_OK)
        return HANDLE(h);
    drop(env, h);
    fail(env, status, why.text);
    return 0;
}

JNIEXPORT void JNICALL Java_vknn_Net_destroyContext(JNIEnv *env, jclass self, jlong context)
{
    (void)self;
    vknn_context_destroy(CONTEXT(context)); /* no net is open any more: it tells nothing behind this */
    drop(env, (holder *)(intptr_t)context);
}

JNIEXPORT jbyteArray JNICALL Java_vknn_Net_deviceName(JNIEnv *env, jclass self, jlong context)
{
    (void)self;
    return array_of(env, vknn_context_device(CONTEXT(context)));
}

JNIEXPORT jbyteArray JNICALL Java_vknn_Net_listDevices(JNIEnv *env, jclass self)
{
    char *text = NULL;
    vknn_message why;
    const vknn_status status = vknn_devices(NULL, &text, &why);
    (void)self;
    if (status == VKNN_OK)
        return taken(env, text);
    fail(env, status, why.text);
    return NULL;
}

JNIEXPORT jlong JNICALL Java_vknn_Net_openNet(JNIEnv *env, jclass self, jlong context, jbyteArray path,
                                              jobject bundle, jint position, jint size, jbyteArray shapes,
                                              jbyteArray target, jbyteArray sha256, jdouble time_limit,
                                              jboolean staged, jlong memory_limit)
{
    vknn_net_options options;
    vknn_net *net = NULL;
    vknn_message why;
    vknn_status status;
    (void)self;
    memset(&options, 0, sizeof options);
    options.shapes = text_of(env, shapes);
    options.target = text_of(env, target);
    options.sha256 = (const uint8_t *)text_of(env, sha256);
    options.time_limit = time_limit;
    options.keeps_memory = 1; /* the Net holds the buffer */
    options.staged = staged ? 1 : 0;
    options.memory_limit = memory_limit > 0 ? (uint64_t)memory_limit : 0;
    if (sha256 && !options.sha256) { /* a pin that cannot be read must not become none */
        status = VKNN_ERROR_HOST_MEMORY;
        strcpy(why.text, "Java has no memory for the SHA-256");
    } else if (bundle) {
        const char *bytes = (const char *)(*env)->GetDirectBufferAddress(env, bundle);
        status = vknn_net_open_memory(CONTEXT(context), bytes ? bytes + position : NULL, (size_t)size,
                                      &options, &net, &why);
    } else {
        const char *name = text_of(env, path);
        status = vknn_net_open_file(CONTEXT(context), name, &options, &net, &why);
        release(env, path, name);
    }
    release(env, shapes, options.shapes);
    release(env, target, options.target);
    release(env, sha256, options.sha256);
    if (status != VKNN_OK)
        fail(env, status, why.text);
    return HANDLE(status == VKNN_OK ? net : NULL);
}

JNIEXPORT void JNICALL Java_vknn_Net_closeNet(JNIEnv *env, jclass self, jlong net)
{
    (void)env;
    (void)self;
    vknn_net_close(NET(net));
}

JNIEXPORT jlong JNICALL Java_vknn_Net_memoryOf(JNIEnv *env, jclass self, jlong net)
{
    (void)env;
    (void)self;
    return (jlong)vknn_net_memory(NET(net));
}

JNIEXPORT jint JNICALL Java_vknn_Net_countPorts(JNIEnv *env, jclass self, jlong net, jboolean is_input)
{
    (void)env;
    (void)self;
    return (jint)vknn_ports(NET(net), direction_of(is_input));
}

JNIEXPORT jfloat JNICALL Java_vknn_Net_describe(JNIEnv *env, jclass self, jlong net, jboolean is_input,
                                                jint index, jobjectArray texts, jlongArray numbers)
{
    vknn_port port;
    const vknn_status status = vknn_describe(NET(net), direction_of(is_input), (uint32_t)index, &port);
    (void)self;
    if (status == VKNN_OK) {
        const char *const lines[3] = {port.name, port.layout, port.picture};
        jlong found[7 + VKNN_MOST_AXES];
        int i;
        found[0] = (jlong)port.type;
        found[1] = (jlong)port.rank;
        found[2] = port.bytes > INT32_MAX ? -1 : (jlong)port.bytes;
        found[3] = (jlong)port.quantized;
        found[4] = (jlong)port.zero_point;
        found[5] = (jlong)port.labels;
        found[6] = (jlong)port.open;
        for (i = 0; i < VKNN_MOST_AXES; i++)
            found[7 + i] = (jlong)port.dims[i];
        (*env)->SetLongArrayRegion(env, numbers, 0, 7 + VKNN_MOST_AXES, found);
        for (i = 0; i < 3; i++) {
            jbyteArray text = array_of(env, lines[i] ? lines[i] : "");
            if (!text)
                return 0;
            (*env)->SetObjectArrayElement(env, texts, i, text);
            (*env)->DeleteLocalRef(env, text);
        }
        return port.scale;
    }
    check(env, NET(net), status);
    return 0;
}

JNIEXPORT jbyteArray JNICALL Java_vknn_Net_labelOf(JNIEnv *env, jclass self, jlong net, jboolean is_input,
                                                   jint index, jint label)
{
    vknn_port port;
    const vknn_status status = vknn_describe(NET(net), direction_of(is_input), (uint32_t)index, &port);
    (void)self;
    if (status == VKNN_OK)
        return label < 0 ? NULL : array_of(env, vknn_label(NET(net), &port, (uint32_t)label));
    check(env, NET(net), status);
    return NULL;
}

JNIEXPORT void JNICALL Java_vknn_Net_shapeOf(JNIEnv *env, jclass self, jlong net, jbyteArray output,
                                             jlongArray dims)
{
    uint64_t sizes[VKNN_MOST_AXES] = {0};
    jlong found[VKNN_MOST_AXES];
    const char *name = text_of(env, output);
    const vknn_status status = vknn_shape(NET(net), name, sizes);
    const jsize rank = (*env)->GetArrayLength(env, dims);
    int i;
    (void)self;
    release(env, output, name);
    for (i = 0; i < VKNN_MOST_AXES; i++)
        found[i] = (jlong)sizes[i];
    if (status == VKNN_OK)
        (*env)->SetLongArrayRegion(env, dims, 0, rank, found);
    check(env, NET(net), status);
}

JNIEXPORT void JNICALL Java_vknn_Net_write(JNIEnv *env, jclass self, jlong net, jbyteArray input,
                                           jobject data, jint position, jint size)
{
    const char *bytes = (const char *)(*env)->GetDirectBufferAddress(env, data);
    const char *name = text_of(env, input);
    const vknn_status status = vknn_set(NET(net), name, bytes ? bytes + position : NULL, (size_t)size);
    (void)self;
    release(env, input, name);
    check(env, NET(net), status);
}

JNIEXPORT void JNICALL Java_vknn_Net_read(JNIEnv *env, jclass self, jlong net, jbyteArray output,
                                          jobject data, jint position, jint size)
{
    char *bytes = (char *)(*env)->GetDirectBufferAddress(env, data);
    const char *name = text_of(env, output);
    const vknn_status status = vknn_get(NET(net), name, bytes ? bytes + position : NULL, (size_t)size);
    (void)self;
    release(env, output, name);
    check(env, NET(net), status);
}

JNIEXPORT jobject JNICALL Java_vknn_Net_borrowOf(JNIEnv *env, jclass self, jlong net, jboolean is_input,
                                                 jbyteArray port)
{
    void *data = NULL;
    size_t bytes = 0;
    const char *name = text_of(env, port);
    const vknn_status status = vknn_borrow(NET(net), direction_of(is_input), name, &data, &bytes);
    (void)self;
    release(env, port, name);
    check(env, NET(net), status);
    return status == VKNN_OK && bytes ? (*env)->NewDirectByteBuffer(env, data, (jlong)bytes) : NULL;
}

JNIEXPORT void JNICALL Java_vknn_Net_runNet(JNIEnv *env, jclass self, jlong net)
{
    (void)self;
    check(env, NET(net), vknn_run(NET(net)));
}

JNIEXPORT void JNICALL Java_vknn_Net_submitNet(JNIEnv *env, jclass self, jlong net)
{
    (void)self;
    check(env, NET(net), vknn_submit(NET(net)));
}

JNIEXPORT void JNICALL Java_vknn_Net_awaitNet(JNIEnv *env, jclass self, jlong net)
{
    (void)self;
    check(env, NET(net), vknn_wait(NET(net)));
}

JNIEXPORT void JNICALL Java_vknn_Net_cancelNet(JNIEnv *env, jclass self, jlong net)
{
    (void)env;
    (void)self;
    vknn_cancel(NET(net));
}

JNIEXPORT void JNICALL Java_vknn_Net_resetNet(JNIEnv *env, jclass self, jlong net)
{
    (void)self;
    check(env, NET(net), vknn_reset(NET(net)));
}

JNIEXPORT jboolean JNICALL Java_vknn_Net_testNet(JNIEnv *env, jclass self, jlong net, jobjectArray text)
{
    char *lines = NULL;
    const vknn_status status = vknn_test(NET(net), &lines);
    jbyteArray array = taken(env, lines);
    (void)self;
    if (array)
        (*env)->SetObjectArrayElement(env, text, 0, array);
    if (status != VKNN_ERROR_DIFFERS && !(*env)->ExceptionCheck(env))
        check(env, NET(net), status);
    return status == VKNN_OK ? JNI_TRUE : JNI_FALSE;
}

JNIEXPORT jbyteArray JNICALL Java_vknn_Net_testJsonNet(JNIEnv *env, jclass self, jlong net)
{
    char *json = NULL;
    const vknn_status status = vknn_test_json(NET(net), &json);
    (void)self;
    if (json) /* which says itself what failed */
        return taken(env, json);
    check(env, NET(net), status);
    return NULL;
}

JNIEXPORT jbyteArray JNICALL Java_vknn_Net_profileNet(JNIEnv *env, jclass self, jlong net, jint runs)
{
    char *json = NULL;
    const vknn_status status = vknn_profile(NET(net), (uint32_t)runs, &json);
    (void)self;
    if (status == VKNN_OK)
        return taken(env, json);
    if (json)
        vknn_free(NULL, json);
    check(env, NET(net), status);
    return NULL;
}
